use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    RATELIMIT, RATELIMIT_LIMIT, RATELIMIT_POLICY, RATELIMIT_REMAINING, RATELIMIT_RESET,
    X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET,
    format::{FieldFormat, Reset},
    policy::Standing,
    set::{PolicySet, integer_value},
};

impl PolicySet {
    /// Writes the fields of a response with these standings, the most constrained first.
    ///
    /// What an inner service has written is respected: to lists the own items are added on a line of their own, and of single
    /// values that with less remaining stays (with as much remaining, the one with the later reset). An inner value that is not
    /// in the chosen format is replaced, because it would make the whole field unreadable.
    ///
    /// Without standings nothing is written.
    pub fn write(&self, standings: &[Standing<'_>], headers: &mut HeaderMap) {
        match self.formats.draft() {
            Some(FieldFormat::Draft11) => {
                let policies = self.policy_value(standings);
                add_items(headers, RATELIMIT_POLICY, policies, opens_string);
                let values = self.standing_value(standings);
                add_items(headers, RATELIMIT, values, opens_string);
            }
            Some(FieldFormat::Draft07) => {
                self.write_dictionary(standings, headers);
                self.write_numeric_policies(standings, headers);
            }
            Some(FieldFormat::Draft06) => {
                // The revision demands a reset beside a limit.
                let reset = |standing: &Standing<'_>| standing.written_after();
                if let Some(standing) = standings.iter().find(|standing| reset(standing).is_some())
                {
                    self.write_triple(&DRAFT, standing, reset(standing), headers);
                }
                self.write_numeric_policies(standings, headers);
            }
            Some(FieldFormat::XRateLimit { .. }) | None => {}
        }
        if let (Some(meaning), Some(standing)) = (self.formats.x_rate_limit(), standings.first()) {
            let reset = match meaning {
                Reset::Epoch => standing.reset_epoch,
                Reset::Delta => standing.written_after(),
            };
            self.write_triple(&CUSTOMARY, standing, reset, headers);
        }
    }

    /// Writes `RateLimit: limit=…, remaining=…, reset=…`.
    fn write_dictionary(&self, standings: &[Standing<'_>], headers: &mut HeaderMap) {
        // The revision demands a reset.
        let Some(standing) = standings.iter().find(|standing| standing.after.is_some()) else {
            return;
        };
        let inner = single(headers, &RATELIMIT).and_then(|value| {
            let remaining = dictionary_member(value, "remaining")?;
            Some((remaining, dictionary_member(value, "reset")))
        });
        let own = (standing.remaining, standing.written_after());
        if inner.is_some_and(|inner| is_tighter(inner, own)) {
            return;
        }
        set(headers, RATELIMIT, self.dictionary_value(standing));
    }

    /// Writes `RateLimit-Policy` as the revisions without policy names have it.
    fn write_numeric_policies(&self, standings: &[Standing<'_>], headers: &mut HeaderMap) {
        let value = self.policy_value(standings);
        add_items(headers, RATELIMIT_POLICY, value, opens_integer);
    }

    /// Writes limit, remaining and reset as three fields, which belong together: all are ours or all the inner service's.
    fn write_triple(
        &self,
        names: &Triple,
        standing: &Standing<'_>,
        reset: Option<u64>,
        headers: &mut HeaderMap,
    ) {
        let Some(quota) = self.quota_value(standing) else {
            return;
        };
        let inner = single(headers, &names.remaining).and_then(|remaining| {
            let reset = single(headers, &names.reset).and_then(leading_integer);
            Some((leading_integer(remaining)?, reset))
        });
        if inner.is_some_and(|inner| is_tighter(inner, (standing.remaining, reset))) {
            return;
        }
        set(headers, names.limit.clone(), Some(quota));
        set(
            headers,
            names.remaining.clone(),
            integer_value(standing.remaining),
        );
        set(headers, names.reset.clone(), reset.and_then(integer_value));
    }
}

/// Three fields with one number each.
struct Triple {
    limit: HeaderName,
    remaining: HeaderName,
    reset: HeaderName,
}

const DRAFT: Triple = Triple {
    limit: RATELIMIT_LIMIT,
    remaining: RATELIMIT_REMAINING,
    reset: RATELIMIT_RESET,
};

const CUSTOMARY: Triple = Triple {
    limit: X_RATELIMIT_LIMIT,
    remaining: X_RATELIMIT_REMAINING,
    reset: X_RATELIMIT_RESET,
};

/// Whether the inner service's remaining and reset bind a client more than ours.
fn is_tighter(inner: (u64, Option<u64>), own: (u64, Option<u64>)) -> bool {
    inner.0 < own.0 || inner.0 == own.0 && inner.1 > own.1
}

/// Adds items to a list, or starts it anew where a line of it does not open as our items do.
fn add_items(
    headers: &mut HeaderMap,
    name: HeaderName,
    value: Option<HeaderValue>,
    fits: fn(&HeaderValue) -> bool,
) {
    let Some(value) = value else { return };
    // A response that has no room for another field goes out without it.
    if headers.get_all(&name).iter().all(fits) {
        let _full = headers.try_append(name, value);
    } else {
        let _full = headers.try_insert(name, value);
    }
}

/// Sets a field to one value, or removes it.
fn set(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    if let Some(value) = value {
        // A response that has no room for another field goes out without it.
        let _full = headers.try_insert(name, value);
    } else {
        headers.remove(name);
    }
}

fn opens_string(value: &HeaderValue) -> bool {
    value.as_bytes().trim_ascii_start().starts_with(b"\"")
}

fn opens_integer(value: &HeaderValue) -> bool {
    let first = value.as_bytes().trim_ascii_start().first();
    first.is_some_and(u8::is_ascii_digit)
}

/// Returns the value of a field that is there exactly once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    Some(value.as_bytes())
}

/// Returns the integer at the start of a value, whatever follows it: `10`, `10;w=1`, `10, 10;w=60`, `10.5`.
fn leading_integer(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii_start();
    let end = value
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(value.len());
    if end == 0 || value.get(end).is_some_and(u8::is_ascii_alphabetic) {
        return None;
    }
    let number = value[..end].iter().fold(0_u64, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    Some(number)
}

/// Returns an integer member of a dictionary such as `limit=100, remaining=50`.
fn dictionary_member(value: &[u8], key: &str) -> Option<u64> {
    value.split(|byte| *byte == b',').find_map(|member| {
        let rest = member.trim_ascii_start().strip_prefix(key.as_bytes())?;
        leading_integer(rest.trim_ascii_start().strip_prefix(b"=")?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_numbers_are_read_leniently() {
        let cases: [(&str, Option<u64>); 10] = [
            ("10", Some(10)),
            (" 10 ", Some(10)),
            ("10;w=1", Some(10)),
            ("10, 10;w=60", Some(10)),
            ("10.5", Some(10)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("", None),
            ("-1", None),
            ("ten", None),
            ("10a", None),
        ];
        for (value, number) in cases {
            assert_eq!(leading_integer(value.as_bytes()), number, "{value:?}");
        }
    }

    #[test]
    fn dictionary_members_are_found_by_their_whole_key() {
        let value = b"limit=100 ,remaining = 7;comment, reset=5";
        assert_eq!(dictionary_member(value, "limit"), Some(100));
        assert_eq!(dictionary_member(value, "remaining"), Some(7));
        assert_eq!(dictionary_member(value, "reset"), Some(5));
        assert_eq!(dictionary_member(value, "rem"), None);
        assert_eq!(dictionary_member(b"xremaining=1", "remaining"), None);
        assert_eq!(dictionary_member(b"\"default\";r=5;t=1", "remaining"), None);
    }
}
