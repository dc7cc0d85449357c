//! The few protobuf messages that a refusal carries, written field by field.

use std::time::Duration;

use super::Code;

/// The longest `google.protobuf.Duration`, 10,000 years in seconds.
const MAX_SECONDS: u64 = 315_576_000_000;

/// Why a quota refusal happened, as clients compare it.
const REASON: &str = "RATE_LIMIT_EXCEEDED";

/// A protobuf message under construction. Fields at their default are not written, as proto3 has it.
#[derive(Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn push_varint(&mut self, mut number: u64) {
        while number > 0x7F {
            self.bytes.push((number & 0x7F) as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push((number & 0x7F) as u8);
    }

    fn varint(mut self, field: u64, number: u64) -> Self {
        if number > 0 {
            self.push_varint(field << 3);
            self.push_varint(number);
        }
        self
    }

    fn length_delimited(mut self, field: u64, bytes: &[u8]) -> Self {
        self.push_varint(field << 3 | 2);
        self.push_varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn string(self, field: u64, string: &str) -> Self {
        if string.is_empty() {
            self
        } else {
            self.length_delimited(field, string.as_bytes())
        }
    }

    /// Writes a message, also an empty one: its presence says something.
    fn message(self, field: u64, message: &Self) -> Self {
        self.length_delimited(field, &message.bytes)
    }

    /// Writes a message of that type as one more detail of a status.
    fn detail(self, name: &str, message: &Self) -> Self {
        let any = Self::default()
            .string(1, &format!("type.googleapis.com/google.rpc.{name}"))
            .message(2, message);
        self.message(3, &any)
    }
}

/// Returns `google.rpc.Status` without details.
pub(super) fn status(code: Code, message: &str) -> Message {
    Message::default()
        .varint(1, u64::from(code.number()))
        .string(2, message)
}

/// Adds the time after which a call may be tried again.
pub(super) fn with_retry_info(status: Message, delay: Duration) -> Message {
    let duration = if delay.as_secs() < MAX_SECONDS {
        Message::default()
            .varint(1, delay.as_secs())
            .varint(2, u64::from(delay.subsec_nanos()))
    } else {
        Message::default().varint(1, MAX_SECONDS)
    };
    status.detail("RetryInfo", &Message::default().message(1, &duration))
}

/// Adds the reason that clients compare.
pub(super) fn with_error_info(status: Message, domain: &str) -> Message {
    let info = Message::default().string(1, REASON).string(2, domain);
    status.detail("ErrorInfo", &info)
}

/// Adds the policies that refuse: as many of them as leave the whole within that many bytes.
pub(super) fn with_quota_failure(status: Message, policies: &[&str], bytes: usize) -> Message {
    /// What the enclosing fields, their lengths and the type's name take at most.
    const ENVELOPE: usize = 64;

    let room = bytes.saturating_sub(status.bytes.len() + ENVELOPE);
    let mut failure = Message::default();
    for policy in policies {
        let violation = Message::default()
            .string(1, policy)
            .string(2, "rate limit exceeded");
        let length = failure.bytes.len();
        failure = failure.message(1, &violation);
        if failure.bytes.len() > room {
            failure.bytes.truncate(length);
            break;
        }
    }
    if failure.bytes.is_empty() {
        return status;
    }
    status.detail("QuotaFailure", &failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        let cases: [(u64, &[u8]); 6] = [
            (0, &[0]),
            (1, &[1]),
            (127, &[0x7F]),
            (128, &[0x80, 1]),
            (300, &[0xAC, 2]),
            (
                u64::MAX,
                &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1],
            ),
        ];
        for (number, bytes) in cases {
            let mut message = Message::default();
            message.push_varint(number);
            assert_eq!(message.into_bytes(), bytes, "{number}");
        }
    }

    #[test]
    fn fields_at_their_default_are_not_written() {
        let message = Message::default().varint(1, 0).string(2, "");
        assert!(message.into_bytes().is_empty());
        let message = Message::default().message(3, &Message::default());
        assert_eq!(message.into_bytes(), [0x1A, 0]);
    }

    #[test]
    fn the_quota_failure_keeps_to_its_room() {
        let names = vec!["n".repeat(1024); 8];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for bytes in (0..10_000).step_by(7) {
            let length = with_quota_failure(Message::default(), &names, bytes)
                .into_bytes()
                .len();
            assert!(length <= bytes, "{length} bytes in a room of {bytes}");
        }
        let all = with_quota_failure(Message::default(), &names, 10_000);
        assert!(all.into_bytes().len() > 8 * 1024);
    }
}
