//! The connection to the server, made when it is first needed and again when it was lost.
//!
//! One connection carries all calls, pipelined: the task that the `redis` crate keeps for it writes
//! out together whatever has been asked since its last turn. Calls hand their bytes to that task and
//! wait for their own answer, with no other task between.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratekeeper_core::{StoreError, StoreErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisError, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::request::Time;

/// For everything from the first packet to a connection that is ready.
const CONNECT: Duration = Duration::from_secs(1);

/// Pauses between attempts double from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// A connection on which nothing has been heard for so long, though something was asked, is given up.
const SILENCE: Duration = Duration::from_secs(1);

/// The canary outlives any pause between looking at it, which happens once an `HOUR` of use.
const CANARY_LIFE: Duration = Duration::from_secs(24 * 3_600);
const HOUR: Duration = Duration::from_secs(3_600);

/// Between attempts while the server says that it is not ready.
const NOT_READY: Duration = Duration::from_millis(2);

/// See the module's documentation.
pub(crate) struct Link {
    client: Client,
    /// Name and value; see `Namer::canary`.
    canary: (String, String),
    runtime: Handle,
    start: Instant,
    state: Mutex<State>,
}

enum State {
    /// Not connected; the next attempt is due at this moment.
    Down {
        due: Instant,
        pause: Duration,
        why: Option<Failure>,
    },
    Connecting(watch::Receiver<Option<Result<Arc<Live>, Failure>>>),
    Up(Arc<Live>),
}

/// A connection.
pub(crate) struct Live {
    connection: MultiplexedConnection,
    start: Instant,
    /// When something was first asked that nothing has been heard after, in microseconds since `start`;
    /// zero: everything was answered. A hint, so Relaxed: whoever misses it sees it a call later.
    unanswered: AtomicU64,
    /// When the canary was last looked at, likewise.
    looked: AtomicU64,
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Redis(RedisError),
    TimedOut,
    OtherSecret,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(error) => error.fmt(f),
            Self::TimedOut => f.write_str("the server did not finish the handshake in time"),
            Self::OtherSecret => f.write_str(
                "a node with another secret uses this namespace: the two would count apart",
            ),
        }
    }
}

impl Error for Failure {}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let kind = match &failure {
            Failure::Redis(error) => return store_error(error.clone()),
            Failure::TimedOut => StoreErrorKind::Unavailable,
            Failure::OtherSecret => StoreErrorKind::Fault,
        };
        Self::with_source(kind, failure)
    }
}

/// Tells a server that cannot answer now from one that was asked something wrong.
pub(crate) fn store_error(error: RedisError) -> StoreError {
    use redis::ServerErrorKind as Server;
    let kind = match error.kind() {
        ErrorKind::Server(Server::ResponseError | Server::CrossSlot) => StoreErrorKind::Fault,
        ErrorKind::UnexpectedReturnType | ErrorKind::Parse => StoreErrorKind::Fault,
        // WRONGTYPE: another's data under our key. The rest (OOM, BUSY, MISCONF, NOREPLICAS) passes.
        ErrorKind::Extension if error.code() == Some("WRONGTYPE") => StoreErrorKind::Fault,
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::with_source(kind, error)
}

impl Link {
    pub(crate) fn new(client: Client, canary: (String, String), runtime: Handle) -> Self {
        let start = Instant::now();
        Self {
            client,
            canary,
            runtime,
            start,
            state: Mutex::new(State::Down {
                due: start,
                pause: FIRST_PAUSE,
                why: None,
            }),
        }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns the connection: the one there is, or the one that is being made.
    pub(crate) async fn live(self: &Arc<Self>) -> Result<Arc<Live>, StoreError> {
        let mut made = match self.now()? {
            Now::Up(live) => return Ok(live),
            Now::Connecting(made) => made,
        };
        let made = made
            .wait_for(Option::is_some)
            .await
            .map(|made| made.clone())
            .map_err(|_| StoreError::new(StoreErrorKind::Unavailable))?;
        match made {
            Some(Ok(live)) => Ok(live),
            Some(Err(failure)) => Err(failure.into()),
            None => Err(StoreError::new(StoreErrorKind::Unavailable)),
        }
    }

    fn now(self: &Arc<Self>) -> Result<Now, StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (due, pause, why) = match &mut *state {
            State::Up(live) if !live.is_silent() => {
                if live.canary_is_due() {
                    self.runtime
                        .spawn(Arc::clone(self).look_at_canary(Arc::clone(live)));
                }
                return Ok(Now::Up(Arc::clone(live)));
            }
            State::Up(_) => (Instant::now(), FIRST_PAUSE, None),
            State::Connecting(made) => return Ok(Now::Connecting(made.clone())),
            State::Down { due, pause, why } => (*due, *pause, why.clone()),
        };
        if Instant::now() < due {
            return Err(
                why.map_or_else(|| StoreError::new(StoreErrorKind::Unavailable), Into::into)
            );
        }
        let (announce, made) = watch::channel(None);
        *state = State::Connecting(made.clone());
        let link = Arc::clone(self);
        self.runtime.spawn(async move {
            let made = link.connect().await;
            *link.state.lock().unwrap_or_else(PoisonError::into_inner) = match &made {
                Ok(live) => State::Up(Arc::clone(live)),
                Err(failure) => State::Down {
                    due: Instant::now() + pause,
                    pause: (2 * pause).min(LAST_PAUSE),
                    why: Some(failure.clone()),
                },
            };
            // Nobody may be waiting any more.
            let _ = announce.send(Some(made));
        });
        Ok(Now::Connecting(made))
    }

    async fn connect(&self) -> Result<Arc<Live>, Failure> {
        // The only deadlines are ours: a call that times out here would not tell whether it ran.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(1_024);
        let connecting = async {
            let connection = self
                .client
                .get_multiplexed_async_connection_with_config(&config)
                .await
                .map_err(Failure::Redis)?;
            let live = Live {
                connection,
                start: self.start,
                unanswered: AtomicU64::new(0),
                looked: AtomicU64::new(0),
            };
            live.load(Time::Server).await.map_err(Failure::Redis)?;
            self.compare_canary(&live).await?;
            Ok(Arc::new(live))
        };
        timeout(CONNECT, connecting)
            .await
            .unwrap_or(Err(Failure::TimedOut))
    }

    async fn compare_canary(&self, live: &Live) -> Result<(), Failure> {
        let (name, value) = &self.canary;
        let life = CANARY_LIFE.as_millis().to_string();
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg(name).arg(value);
        pipeline.arg("NX").arg("PX").arg(&life);
        pipeline.cmd("GET").arg(name);
        pipeline.cmd("PEXPIRE").arg(name).arg(&life);
        let answers = live.send_all(&pipeline, 3).await.map_err(Failure::Redis)?;
        live.looked.store(live.micros(), Ordering::Relaxed);
        let found = answers.into_iter().nth(1).unwrap_or(Value::Nil);
        match found.extract_error().map_err(Failure::Redis)? {
            Value::BulkString(found) if found == value.as_bytes() => Ok(()),
            _ => Err(Failure::OtherSecret),
        }
    }

    async fn look_at_canary(self: Arc<Self>, live: Arc<Live>) {
        live.looked.store(live.micros(), Ordering::Relaxed);
        if let Err(failure @ Failure::OtherSecret) = self.compare_canary(&live).await {
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Down {
                due: Instant::now() + LAST_PAUSE,
                pause: LAST_PAUSE,
                why: Some(failure),
            };
        }
    }

    /// Makes the next call connect anew, if it would use this connection.
    fn drop_connection(&self, lost: &Arc<Live>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(&*state, State::Up(live) if Arc::ptr_eq(live, lost)) {
            *state = State::Down {
                due: Instant::now(),
                pause: FIRST_PAUSE,
                why: None,
            };
        }
    }

    /// Asks the server. Repeats itself only when the answer proves that nothing ran.
    pub(crate) async fn call(
        self: &Arc<Self>,
        command: &Cmd,
        time: Time,
        sent: impl FnOnce(),
    ) -> Result<Value, StoreError> {
        let live = self.live().await?;
        sent();
        loop {
            let error = match live.send(command).await.and_then(Value::extract_error) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match proof_that_nothing_ran(&error) {
                Some(Remedy::LoadScript) => match live.load(time).await {
                    Ok(()) => {}
                    Err(error) => return Err(self.failed(&live, error)),
                },
                Some(Remedy::Wait) => sleep(NOT_READY).await,
                None => return Err(self.failed(&live, error)),
            }
        }
    }

    /// Asks the server several things at once, each answered on its own. Repeats those of which the
    /// answer proves that they did not run.
    pub(crate) async fn call_all(
        self: &Arc<Self>,
        mut commands: Vec<Cmd>,
        time: Time,
        mut answered: impl FnMut(usize, Value),
    ) -> Result<(), StoreError> {
        let live = self.live().await?;
        let mut places: Vec<usize> = (0..commands.len()).collect();
        while !commands.is_empty() {
            let mut pipeline = redis::pipe();
            for command in &commands {
                pipeline.add_command(command.clone());
            }
            let answers = match live.send_all(&pipeline, commands.len()).await {
                Ok(answers) => answers,
                Err(error) => return Err(self.failed(&live, error)),
            };
            let mut again = (Vec::new(), Vec::new());
            let mut load = false;
            for ((command, place), answer) in commands.into_iter().zip(places).zip(answers) {
                match answer.extract_error() {
                    Ok(value) => answered(place, value),
                    Err(error) => {
                        if let Some(remedy) = proof_that_nothing_ran(&error) {
                            load |= remedy == Remedy::LoadScript;
                            again.0.push(command);
                            again.1.push(place);
                        }
                    }
                }
            }
            (commands, places) = again;
            if load {
                if let Err(error) = live.load(time).await {
                    return Err(self.failed(&live, error));
                }
            } else if !commands.is_empty() {
                sleep(NOT_READY).await;
            }
        }
        Ok(())
    }

    fn failed(&self, live: &Arc<Live>, error: RedisError) -> StoreError {
        if error.is_unrecoverable_error() {
            self.drop_connection(live);
        }
        store_error(error)
    }
}

enum Now {
    Up(Arc<Live>),
    Connecting(watch::Receiver<Option<Result<Arc<Live>, Failure>>>),
}

/// What to do before a call that did not run is repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remedy {
    LoadScript,
    Wait,
}

fn proof_that_nothing_ran(error: &RedisError) -> Option<Remedy> {
    use redis::ServerErrorKind as Server;
    match error.kind() {
        ErrorKind::Server(Server::NoScript) => Some(Remedy::LoadScript),
        ErrorKind::Server(
            Server::BusyLoading | Server::TryAgain | Server::ClusterDown | Server::MasterDown,
        ) => Some(Remedy::Wait),
        _ => None,
    }
}

impl Live {
    /// Microseconds since the link was made, at least one.
    fn micros(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros())
            .unwrap_or(u64::MAX)
            .max(1)
    }

    fn asked(&self) {
        if self.unanswered.load(Ordering::Relaxed) == 0 {
            self.unanswered.store(self.micros(), Ordering::Relaxed);
        }
    }

    fn heard(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    fn is_silent(&self) -> bool {
        let since = self.unanswered.load(Ordering::Relaxed);
        since != 0 && self.micros().saturating_sub(since) > micros(SILENCE)
    }

    fn canary_is_due(&self) -> bool {
        let looked = self.looked.load(Ordering::Relaxed);
        self.micros().saturating_sub(looked) > micros(HOUR)
    }

    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.asked();
        let answer = self.connection.clone().send_packed_command(command).await;
        self.heard();
        answer
    }

    async fn send_all(&self, pipeline: &Pipeline, count: usize) -> Result<Vec<Value>, RedisError> {
        self.asked();
        let mut connection = self.connection.clone();
        let answers = connection.send_packed_commands(pipeline, 0, count).await;
        self.heard();
        answers
    }

    /// Has the server know the script.
    async fn load(&self, time: Time) -> Result<(), RedisError> {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(time.source());
        self.send(&command).await?.extract_error()?;
        Ok(())
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
