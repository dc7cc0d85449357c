use std::{error::Error, fmt};

/// How long a policy name may be: every parser of structured fields handles strings of this length.
const MAX_NAME: usize = 1024;

/// What the numbers of a policy count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// Requests; said by saying nothing.
    #[default]
    Requests,
    /// Bytes of content.
    ContentBytes,
    /// Requests that are being served at the same time.
    ConcurrentRequests,
}

impl Unit {
    /// Returns the text of the `qu` parameter, `None` for the unit that goes without saying.
    pub(super) fn text(self) -> Option<&'static str> {
        match self {
            Self::Requests => None,
            Self::ContentBytes => Some("content-bytes"),
            Self::ConcurrentRequests => Some("concurrent-requests"),
        }
    }
}

/// A limit as a client is told of it: a name, a quota and the window that the quota is for.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::fields::{Policy, Unit};
///
/// let per_minute = Policy::new("default", 100)?.window(60);
/// let at_once = Policy::new("conc", 10)?.unit(Unit::ConcurrentRequests);
/// assert_eq!(per_minute.name(), "default");
///
/// // A header field cannot carry this name.
/// assert!(Policy::new("größe", 100).is_err());
/// # let _ = at_once;
/// # Ok::<(), tower_ratekeeper::fields::FieldNameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    name: Box<str>,
    quota: u64,
    unit: Unit,
    /// Whole seconds, at least 1: a window of zero is forbidden on the wire.
    window: Option<u64>,
}

impl Policy {
    /// Returns the policy of that many requests, without a window.
    ///
    /// Quotas above 999,999,999,999,999 are written as that number, which is the largest a field can carry.
    ///
    /// # Errors
    ///
    /// The name is longer than 1024 characters or holds one outside printable ASCII (U+0020 to U+007E).
    pub fn new(name: impl Into<String>, quota: u64) -> Result<Self, FieldNameError> {
        let name = name.into();
        if name.len() > MAX_NAME || !name.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(FieldNameError { name });
        }
        Ok(Self {
            name: name.into(),
            quota,
            unit: Unit::default(),
            window: None,
        })
    }

    /// Sets the window in whole seconds; 0 is taken as 1.
    #[must_use]
    pub fn window(mut self, seconds: u64) -> Self {
        self.window = Some(seconds.max(1));
        self
    }

    /// Sets what the quota counts.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn quota(&self) -> u64 {
        self.quota
    }

    pub(super) fn quota_unit(&self) -> Unit {
        self.unit
    }

    pub(super) fn seconds(&self) -> Option<u64> {
        self.window
    }
}

/// A policy name that no header field can carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldNameError {
    name: String,
}

impl FieldNameError {
    /// Returns the refused name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for FieldNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        if name.len() > MAX_NAME {
            write!(
                f,
                "a policy name of {} bytes is too long: at most {MAX_NAME} are allowed",
                name.len()
            )
        } else {
            write!(
                f,
                "invalid policy name {name:?}: only printable ASCII characters are allowed"
            )
        }
    }
}

impl Error for FieldNameError {}

/// What one policy has left for the caller of a request.
///
/// # Examples
///
/// ```
/// use http::HeaderMap;
/// use tower_ratekeeper::fields::{FieldFormats, Policy, PolicySet, Standing};
///
/// let policies = [Policy::new("default", 100)?.window(60)];
/// let policies = PolicySet::new(policies, FieldFormats::default());
///
/// let mut headers = HeaderMap::new();
/// policies.write(&[Standing::new(0, 99).after(50)], &mut headers);
/// assert_eq!(headers["ratelimit"], r#""default";r=99;t=50"#);
/// assert_eq!(headers["ratelimit-policy"], r#""default";q=100;w=60"#);
/// # Ok::<(), tower_ratekeeper::fields::FieldNameError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    pub(super) policy: usize,
    pub(super) remaining: u64,
    pub(super) after: Option<u64>,
    pub(super) reset_epoch: Option<u64>,
    pub(super) partition: Option<&'a [u8]>,
}

impl<'a> Standing<'a> {
    /// Returns the standing of the policy at that place of its [`PolicySet`](super::PolicySet), with that many whole units left.
    ///
    /// A place that the set does not have is left out of the fields.
    #[must_use]
    pub const fn new(policy: usize, remaining: u64) -> Self {
        Self {
            policy,
            remaining,
            after: None,
            reset_epoch: None,
            partition: None,
        }
    }

    /// Sets after how many seconds, rounded up, more will be left.
    ///
    /// Where nothing is left, 0 is written as 1.
    #[must_use]
    pub const fn after(mut self, seconds: u64) -> Self {
        self.after = Some(seconds);
        self
    }

    /// Sets when, in seconds since the Unix epoch and rounded up, more will be left.
    #[must_use]
    pub const fn reset_epoch(mut self, seconds: u64) -> Self {
        self.reset_epoch = Some(seconds);
        self
    }

    /// Sets the bytes that tell the client which partition it was counted in.
    ///
    /// They are sent as they are, so they must not be the key itself: pass a keyed hash of it.
    #[must_use]
    pub const fn partition(mut self, key: &'a [u8]) -> Self {
        self.partition = Some(key);
        self
    }

    /// Returns the seconds to write for the reset: at least 1 where nothing is left.
    pub(super) fn written_after(&self) -> Option<u64> {
        self.after.map(|seconds| {
            if self.remaining == 0 {
                seconds.max(1)
            } else {
                seconds
            }
        })
    }
}

/// The partition is left out: it stands for a caller.
impl fmt::Debug for Standing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing")
            .field("policy", &self.policy)
            .field("remaining", &self.remaining)
            .field("after", &self.after)
            .field("reset_epoch", &self.reset_epoch)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_of_a_standing_shows_no_partition() {
        let text = format!("{:?}", Standing::new(0, 7).partition(b"secret"));
        assert_eq!(
            text,
            "Standing { policy: 0, remaining: 7, after: None, reset_epoch: None, .. }"
        );
    }

    #[test]
    fn a_refused_name_is_named_and_escaped() {
        let error = Policy::new("a\nb", 1).unwrap_err();
        assert_eq!(error.name(), "a\nb");
        assert_eq!(
            error.to_string(),
            r#"invalid policy name "a\nb": only printable ASCII characters are allowed"#
        );
    }

    #[test]
    fn exactly_the_printable_ascii_characters_are_allowed_in_a_name() {
        for code in 0..=0x2FF_u32 {
            let name = char::from_u32(code).unwrap().to_string();
            let allowed = (0x20..=0x7E).contains(&code);
            assert_eq!(Policy::new(name, 1).is_ok(), allowed, "U+{code:04X}");
        }
    }

    #[test]
    fn a_name_may_be_as_long_as_every_parser_reads() {
        assert!(Policy::new("n".repeat(1024), 1).is_ok());
        let error = Policy::new("n".repeat(1025), 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a policy name of 1025 bytes is too long: at most 1024 are allowed"
        );
    }
}
