//! Measures ours beside its peers: `scripts/bench [GROUP] [--quick] [--json]`.

mod allocations;
mod check;
mod http;
mod measure;
mod peers;
mod report;
mod server;
mod store;

use measure::{Row, Settings};

/// The groups by name, in the order in which they run.
const GROUPS: &[(&str, fn(Settings) -> Vec<Row>)] = &[
    ("check", check::rows),
    ("store", store::rows),
    ("layer", http::rows),
    ("axum", server::rows),
];

fn main() {
    // What the program asks of itself, in another process.
    if let [_, task, of] = &*std::env::args().collect::<Vec<_>>() {
        match task.as_str() {
            "memory-of" => return store::print_memory(of),
            "serve" => return server::serve(of),
            _ => {}
        }
    }
    let mut settings = Settings { quick: false };
    let mut json = false;
    let mut wanted = None;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => settings.quick = true,
            "--json" => json = true,
            group if GROUPS.iter().any(|(name, _)| *name == group) => wanted = Some(argument),
            _ => {
                let groups: Vec<_> = GROUPS.iter().map(|(name, _)| *name).collect();
                eprintln!(
                    "usage: scripts/bench [{}] [--quick] [--json]",
                    groups.join("|")
                );
                std::process::exit(2);
            }
        }
    }
    let mut rows = Vec::new();
    for (name, group) in GROUPS {
        if wanted.as_deref().is_none_or(|wanted| wanted == *name) {
            let group = group(settings);
            if !json {
                report::print_table(&group);
            }
            rows.extend(group);
        }
    }
    if json {
        report::print_json(&rows);
    }
}
