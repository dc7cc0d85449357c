//! Keys as a log can tell them.

/// What a log tells of a request that can be (part of) a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPart {
    /// The client: the network of its address, of so many bits for IPv4 and IPv6, or its host name.
    Ip(u8, u8),
    /// The authenticated user.
    User,
    /// The host asked for.
    Host,
    /// The method; `HEAD` counts as `GET`.
    Method,
    /// The path without its query.
    Path,
}

impl KeyPart {
    /// The client as servers key it unless told otherwise: an IPv4 address or an IPv6 /64.
    pub const IP: Self = Self::Ip(32, 64);

    /// Reads one part, such as `user`, `ip` or `ip:24/48`.
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            // What a log has is the peer, or what the server took for the client.
            "ip" | "peer" => Self::IP,
            "user" => Self::User,
            "host" => Self::Host,
            "method" => Self::Method,
            "path" => Self::Path,
            _ => {
                let (v4, v6) = text.strip_prefix("ip:")?.split_once('/')?;
                let (v4, v6) = (v4.parse().ok()?, v6.parse().ok()?);
                (v4 <= 32 && v6 <= 128).then_some(Self::Ip(v4, v6))?
            }
        })
    }
}

/// A key: a list of parts, of each the first of some alternatives that the log has. No part at all
/// is the key that all requests share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyParts(pub Vec<Vec<KeyPart>>);

impl KeyParts {
    /// Reads a key: `ip`, `user or ip`, `(ip, path)`, `global`. What a server does without a key
    /// (`else 401`, `else exempt`) means nothing here: requests without one are let through and
    /// counted.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = match text.rsplit_once(" else ") {
            Some((key, policy)) if policy != "shared" && !policy.contains([')', ',', ' ']) => key,
            _ => text,
        };
        if text == "global" {
            return Ok(Self(Vec::new()));
        }
        let inside = text
            .strip_prefix('(')
            .and_then(|text| text.strip_suffix(')'));
        let parts = inside.map_or(vec![text], |inside| inside.split(", ").collect());
        let one = |name: &str| {
            KeyPart::read(name).ok_or_else(|| {
                format!(
                    "a log does not tell the key {name:?}, but ip, user, host, method, path, (a, b), \
                     a or b, and global"
                )
            })
        };
        let parts = parts
            .into_iter()
            .map(|part| part.split(" or ").map(one).collect());
        parts.collect::<Result<_, _>>().map(Self)
    }
}
