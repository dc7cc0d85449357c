//! The claims of a request as a command to the server.

use ratekeeper_core::{Claims, Cost, Key, Limit, LimitError, Mode, Receipt};
use redis::Cmd;

use crate::bounds::{MAX_EXACT, Numbers};
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
        command.arg(if claims.is_peek() { "p" } else { "a" });
        for claim in &asked {
            let Numbers {
                kind,
                period,
                units,
                capacity,
            } = claim.numbers;
            // A cost above the capacity is refused whatever it is.
            let cost = claim.cost.needed().min(capacity + 1);
            let enforced = u8::from(claim.mode == Mode::Enforced);
            let later = 2 * u8::from(claim.cost == Cost::Deferred);
            command
                .arg(kind.letter())
                .arg(period)
                .arg(units)
                .arg(capacity)
                .arg(cost)
                .arg(enforced + later);
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
    let mut command = Cmd::with_capacity(14, 320);
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
        .arg(receipt.limit.max_debt());
    Ok(time.finish(command))
}
