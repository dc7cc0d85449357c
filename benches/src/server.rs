//! `axum/…`: servers in processes of their own, under load over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;

use crate::http::{axum_governor, ours, tower_governor};
use crate::measure::{Row, Settings, nanos};

/// Connections that ask one after another, each waiting for its answer: enough to keep the server
/// busy, few enough for one thread.
const CONNECTIONS: usize = 16;

/// The servers by name.
const SERVERS: &[&str] = &[
    "bare",
    "ours",
    "ours_fields",
    "ours_refused",
    "tower_governor",
    "tower_governor_fields",
    "tower_governor_refused",
    "axum_governor",
    "axum_governor_refused",
];

/// Serves until the process is killed; prints the port first. One thread, so that its time is the
/// server's.
pub fn serve(name: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let app = Router::new().route("/", get(async || "hello"));
        let app = match name {
            "ours" => app.layer(ours(false, false)),
            "ours_fields" => app.layer(ours(false, true)),
            "ours_refused" => app.layer(ours(true, true)),
            "tower_governor" => app.layer(tower_governor!(false)),
            "tower_governor_fields" => app.layer(tower_governor!(false, use_headers)),
            "tower_governor_refused" => app.layer(tower_governor!(true)),
            "axum_governor" => app.layer(axum_governor(false)),
            "axum_governor_refused" => app.layer(axum_governor(true)),
            _ => app,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port on loopback");
        println!("{}", listener.local_addr().expect("an address").port());
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service).await.expect("it serves");
    });
}

struct Server {
    child: Child,
    connections: Vec<TcpStream>,
    /// Of every round: nanoseconds of the server's processor time for a request, and of the wall.
    cpu: Vec<f64>,
    wall: Vec<f64>,
    latencies: Vec<f64>,
}

impl Server {
    fn start(name: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["serve", name])
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs");
        let mut port = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut port).expect("a port");
        let address = format!("127.0.0.1:{}", port.trim());
        let connections = (0..CONNECTIONS)
            .map(|_| {
                let stream = TcpStream::connect(&address).expect("the server listens");
                stream.set_nodelay(true).expect("an option of TCP");
                stream
            })
            .collect();
        Self {
            child,
            connections,
            cpu: Vec::new(),
            wall: Vec::new(),
            latencies: Vec::new(),
        }
    }

    /// Nanoseconds that the server has been running on a processor.
    fn cpu_time(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id()));
        let text = text.unwrap_or_default();
        text.split_whitespace()
            .next()
            .and_then(|nanos| nanos.parse().ok())
            .unwrap_or(f64::NAN)
    }

    /// Asks for this long: a request on every connection, then an answer from every one.
    fn round(&mut self, length: Duration) {
        let mut buffer = [0; 4096];
        let mut requests = 0.0;
        let (cpu, start) = (self.cpu_time(), Instant::now());
        while start.elapsed() < length {
            let sent = Instant::now();
            for connection in &mut self.connections {
                let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
                connection.write_all(request).expect("the server listens");
            }
            for connection in &mut self.connections {
                // Every answer fits a packet.
                let read = connection.read(&mut buffer).expect("the server answers");
                assert!(buffer[..read].starts_with(b"HTTP/1.1 "));
                self.latencies.push(nanos(sent.elapsed()) / 1_000.0);
                requests += 1.0;
            }
        }
        self.wall.push(nanos(start.elapsed()) / requests);
        self.cpu.push((self.cpu_time() - cpu) / requests);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; there is nothing to be done about either.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn rows(settings: Settings) -> Vec<Row> {
    let mut servers: Vec<_> = SERVERS
        .iter()
        .map(|name| (*name, Server::start(name)))
        .collect();
    let length = Duration::from_millis(200);
    for (_, server) in &mut servers {
        server.round(length);
        server.cpu.clear();
        server.wall.clear();
        server.latencies.clear();
    }
    for _ in 0..settings.rounds(21) {
        for (_, server) in &mut servers {
            server.round(length);
        }
    }
    let mut cpu = Row::new("axum/cpu", "ns of the server per request");
    let mut refused = Row::new("axum/refused", "requests per second");
    let mut latency = Row::new("axum/latency", "µs, p50 and p99 of 16 connections");
    for (name, server) in &mut servers {
        let median = |values: &mut Vec<f64>, share: f64| {
            values.sort_by(f64::total_cmp);
            values[((values.len() - 1) as f64 * share) as usize]
        };
        cpu = cpu
            .with(*name, median(&mut server.cpu, 0.5))
            .with_worst(*name, median(&mut server.cpu, 1.0));
        let wall = median(&mut server.wall, 0.5);
        let slowest = median(&mut server.wall, 1.0);
        let peer = name.strip_suffix("_refused");
        if let Some(name) = peer.or((*name == "bare").then_some("bare_allowed")) {
            refused = refused
                .with(name, 1e9 / wall)
                .with_worst(name, 1e9 / slowest);
        }
        latency = latency
            .with(format!("{name}_p50"), median(&mut server.latencies, 0.5))
            .with(format!("{name}_p99"), median(&mut server.latencies, 0.99));
    }
    vec![cpu, refused, latency]
}
