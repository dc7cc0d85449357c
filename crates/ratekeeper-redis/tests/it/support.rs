//! A server on a free port of the loopback, killed when the last test that uses it ends.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::{Duration, Instant};

use ratekeeper_core::algorithm::UtcOffset;
use ratekeeper_core::{Acquire, Algorithm, Answer, Claims, Store, StoreError};
use ratekeeper_redis::{KeyNames, Redis, RedisBuilder};
use tokio::runtime::Runtime;

pub(crate) const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::LeakyBucket,
    Algorithm::TokenBucket,
    Algorithm::FixedWindow,
    Algorithm::CalendarWindow(UtcOffset::UTC),
    Algorithm::SlidingLog,
    Algorithm::SlidingCounter,
];

pub(crate) const SECRET: &str = "the secret of the tests";

/// One runtime for all tests of the binary; stores are bound to it.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
});

/// A server of one's own.
#[derive(Debug)]
pub(crate) struct Server {
    port: u16,
    folder: PathBuf,
    process: Mutex<Child>,
}

impl Server {
    /// Starts a server; `None`, saying so, where none is installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_on(free_port())
    }

    pub(crate) fn start_on(port: u16) -> Option<Self> {
        let folder =
            std::env::temp_dir().join(format!("ratekeeper-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let process = spawn(port, &folder)?;
        let server = Self {
            port,
            folder,
            process: Mutex::new(process),
        };
        server.wait_until_ready();
        Some(server)
    }

    /// Returns the server that the tests share: a test that needs no more than a namespace.
    pub(crate) fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        thread_local! {
            // Held by every test's thread, and so by none in the end.
            static HELD: RefCell<Option<Arc<Server>>> = const { RefCell::new(None) };
        }
        let mut shared = SHARED.lock().unwrap();
        let server = match shared.upgrade() {
            Some(server) => server,
            None => Arc::new(Self::start()?),
        };
        *shared = Arc::downgrade(&server);
        HELD.with_borrow_mut(|held| *held = Some(Arc::clone(&server)));
        Some(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// A store's builder in a namespace of its own.
    pub(crate) fn builder(&self) -> RedisBuilder {
        self.builder_in(&new_namespace())
    }

    pub(crate) fn builder_in(&self, namespace: &str) -> RedisBuilder {
        Redis::builder(&self.url(), namespace, KeyNames::secret(SECRET).unwrap())
    }

    /// Sends a command over a connection of its own and returns the raw answer.
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text += &format!("${}\r\n{word}\r\n", word.len());
        }
        stream.write_all(text.as_bytes()).unwrap();
        stream.write_all(b"*1\r\n$4\r\nQUIT\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.strip_suffix("+OK\r\n").unwrap_or(&answer).to_owned()
    }

    /// Returns the lines of an answer that are neither lengths nor counts.
    pub(crate) fn list(&self, words: &[&str]) -> Vec<String> {
        let answer = self.ask(words);
        let lines = answer.lines().filter(|line| !line.starts_with(['*', '$']));
        lines.map(str::to_owned).collect()
    }

    pub(crate) fn number(&self, words: &[&str]) -> i64 {
        let answer = self.ask(words);
        answer
            .trim_start_matches(':')
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{words:?}: {answer}"))
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.lock().unwrap().id().to_string();
        let status = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Kills the server.
    pub(crate) fn stop(&self) {
        let mut process = self.process.lock().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Starts it again on the same port, empty.
    pub(crate) fn start_again(&self) {
        *self.process.lock().unwrap() = spawn(self.port, &self.folder).unwrap();
        self.wait_until_ready();
    }

    fn wait_until_ready(&self) {
        let patience = Instant::now() + Duration::from_secs(10);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        while TcpStream::connect(address).is_err() {
            assert!(
                Instant::now() < patience,
                "redis-server does not listen on {address}"
            );
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(process) = self.process.get_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn spawn(port: u16, folder: &PathBuf) -> Option<Child> {
    let log = File::create(folder.join("log")).unwrap();
    let spawned = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args([
            "--save",
            "",
            "--appendonly",
            "no",
            "--enable-debug-command",
            "yes",
        ])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(Stdio::null())
        .spawn();
    match spawned {
        Ok(process) => Some(process),
        Err(error) => {
            skipped(&format!("redis-server is not to be had here ({error})"));
            None
        }
    }
}

/// Says that a test did nothing: on its error stream, and in the file that the test script counts.
fn skipped(reason: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("SKIPPED: {name}: {reason}");
    if let Some(path) = std::env::var_os("RATEKEEPER_SKIPS") {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        writeln!(file, "{name}: {reason}").unwrap();
    }
}

pub(crate) fn new_namespace() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{number}", std::process::id())
}

/// Asks a store and waits for the answer.
pub(crate) async fn ask(store: &impl Store, claims: &Claims<'_>) -> Result<Answer, StoreError> {
    match store.acquire(claims) {
        Acquire::Now(answer) => answer,
        Acquire::Later(answer) => answer.await,
    }
}
