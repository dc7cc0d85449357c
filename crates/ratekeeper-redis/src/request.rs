//! The claims of a request as a command to the server.

use std::fmt;

use ratekeeper_core::{Claims, Cost, Key, Limit, LimitError, Mode, Receipt};
use redis::{Cmd, RedisWrite, ToRedisArgs, ToSingleRedisArg};

use crate::bounds::{Kind, MAX_EXACT, Numbers};
use crate::names::Namer;
use crate::script;

/// Where the script takes the time from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Time {
    Server,
    /// Microseconds since the epoch.
    #[cfg(feature = "__test-clock")]
    Caller(u64),
}

impl Time {
    pub(crate) fn digest(self) -> &'static str {
        match self {
            Self::Server => script::digest(),
            #[cfg(feature = "__test-clock")]
            Self::Caller(_) => script::test_clock::digest(),
        }
    }

    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Server => script::SOURCE,
            #[cfg(feature = "__test-clock")]
            Self::Caller(_) => script::test_clock::SOURCE,
        }
    }

    fn finish(self, command: Cmd) -> Cmd {
        match self {
            Self::Server => command,
            #[cfg(feature = "__test-clock")]
            Self::Caller(micros) => {
                let mut command = command;
                command.arg(micros);
                command
            }
        }
    }
}

/// A claim as its answer needs it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) limit: Limit,
    pub(crate) key: Key,
    pub(crate) cost: Cost,
    pub(crate) mode: Mode,
    pub(crate) settles: bool,
    pub(crate) numbers: Numbers,
}

impl Asked {
    /// Returns whether the script has a short way for a request of this claim alone.
    fn is_plain_bucket(&self) -> bool {
        self.numbers.kind == Kind::Bucket
            && self.mode == Mode::Enforced
            && self.cost != Cost::Deferred
    }

    /// Returns the script's arguments of a claim.
    fn arguments(&self) -> [Argument; 6] {
        let Numbers {
            kind,
            period,
            units,
            capacity,
        } = self.numbers;
        // A cost above any capacity is refused whatever it is. The capacity that decides may be a
        // newer one than this.
        let cost = self.cost.needed().min(MAX_EXACT + 1);
        let enforced = u8::from(self.mode == Mode::Enforced);
        let later = 2 * u8::from(self.cost == Cost::Deferred);
        let generation = 4 * i64::from(self.limit.generation());
        [
            Argument::Text(kind.letter()),
            Argument::Number(period.cast_signed()),
            Argument::Number(units),
            Argument::Number(capacity.cast_signed()),
            Argument::Number(cost.cast_signed()),
            Argument::Number(generation + i64::from(enforced + later)),
        ]
    }
}

/// An argument of the script. Numbers stay below 2^53.
#[derive(Clone, Copy, Debug)]
enum Argument {
    Text(&'static str),
    Number(i64),
}

impl ToRedisArgs for Argument {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        match self {
            Self::Text(text) => text.write_redis_args(out),
            Self::Number(number) => number.write_redis_args(out),
        }
    }
}

impl ToSingleRedisArg for Argument {}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// The claims of a request and the command that decides them.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) claims: Vec<Asked>,
    pub(crate) peek: bool,
    pub(crate) command: Cmd,
    pub(crate) time: Time,
}

impl Request {
    /// Puts a request together.
    ///
    /// # Errors
    ///
    /// When a limit is not one that the server can keep.
    pub(crate) fn new(claims: &Claims<'_>, namer: &Namer, time: Time) -> Result<Self, LimitError> {
        let asked: Vec<Asked> = claims
            .as_slice()
            .iter()
            .map(|claim| {
                Ok(Asked {
                    limit: claim.limit.clone(),
                    key: claim.key,
                    cost: claim.cost,
                    mode: claim.mode,
                    settles: claim.settles,
                    numbers: Numbers::of(claim.limit)?,
                })
            })
            .collect::<Result<_, LimitError>>()?;
        let mut command = Cmd::with_capacity(4 + 7 * asked.len(), 64 + 160 * asked.len());
        command.arg("EVALSHA").arg(time.digest()).arg(asked.len());
        for claim in &asked {
            command.arg(namer.name(&claim.limit, &claim.key));
        }
        match &asked[..] {
            [claim] if claim.is_plain_bucket() && !claims.is_peek() => {
                let [_, period, units, capacity, cost, _] = claim.arguments();
                let numbers = match claim.limit.generation() {
                    0 => format!("b {period} {units} {capacity}"),
                    generation => format!("g{generation} b {period} {units} {capacity}"),
                };
                command.arg("1").arg(numbers).arg(cost);
                command.arg(period).arg(units).arg(capacity);
            }
            _ => {
                command.arg(if claims.is_peek() { "p" } else { "a" });
                for argument in asked.iter().flat_map(Asked::arguments) {
                    command.arg(argument);
                }
            }
        }
        Ok(Self {
            claims: asked,
            peek: claims.is_peek(),
            command: time.finish(command),
            time,
        })
    }
}

/// Returns the command that ends a charge: gives back or charges so many units.
///
/// # Errors
///
/// When the limit is not one that the server can keep.
pub(crate) fn settle(
    receipt: &Receipt,
    refund: u64,
    charge: u64,
    namer: &Namer,
    time: Time,
) -> Result<Cmd, LimitError> {
    let Numbers {
        kind,
        period,
        units,
        capacity,
    } = Numbers::of(&receipt.limit)?;
    let mut command = Cmd::with_capacity(15, 320);
    command
        .arg("EVALSHA")
        .arg(time.digest())
        .arg(1)
        .arg(namer.name(&receipt.limit, &receipt.key))
        .arg("s")
        .arg(kind.letter())
        .arg(period)
        .arg(units)
        .arg(capacity)
        .arg(refund.min(MAX_EXACT))
        .arg(charge.min(MAX_EXACT))
        .arg(receipt.stamp)
        .arg(receipt.limit.max_debt())
        .arg(receipt.limit.generation());
    Ok(time.finish(command))
}

#[cfg(test)]
mod tests {
    use ratekeeper_core::{Claim, Quota};

    use super::*;
    use crate::names::KeyNames;

    /// So two nodes agree however far their clocks are apart: the script reads the server's.
    #[test]
    fn what_a_node_sends_tells_nothing_of_its_clock() {
        let sent = || {
            let names = KeyNames::secret("0123456789abcdef").unwrap();
            let namer = Namer::new("shop", names);
            let limit = Limit::token_bucket("pages", Quota::per_second(3)).unwrap();
            let claims = [Claim::new(&limit, "alice"), Claim::new(&limit, "bob")];
            let claims = Claims::new(&claims).unwrap();
            let request = Request::new(&claims, &namer, Time::Server).unwrap();
            let words = request.command.args_iter().skip(5);
            words.map(|word| format!("{word:?}")).collect::<Vec<_>>()
        };
        let mut expected = vec!["a"];
        for _ in 0..2 {
            expected.extend(["b", "1000000", "3", "3", "1", "1"]);
        }
        let expected: Vec<_> = expected
            .iter()
            .map(|word| format!("{:?}", redis::Arg::Simple(word.as_bytes())))
            .collect();
        assert_eq!(sent(), expected);
        assert_eq!(sent(), sent());
        assert_eq!(script::SOURCE.matches("'TIME'").count(), 1);
    }
}
