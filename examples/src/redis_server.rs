//! A Redis server of an example's own.

use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A `redis-server` on a free port of the loopback, killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    process: Child,
    port: u16,
}

impl RedisServer {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    ///
    /// When there is no `redis-server`, or it does not listen within ten seconds.
    pub fn start() -> Result<Self, Box<dyn Error>> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
        let process = command.arg(port.to_string()).stdout(Stdio::null()).spawn()?;
        let server = Self { process, port };
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("redis-server does not listen".into())
    }

    /// Returns the address to connect to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
