//! The results for people and for programs.

use crate::measure::Row;

/// Prints the medians, in brackets the worst round, and how ours compares with each peer.
pub fn print_table(rows: &[Row]) {
    for row in rows {
        println!("{} ({})", row.id, row.unit);
        for (name, value) in &row.values {
            let worst = row.worst.get(name);
            let worst = worst.map_or(String::new(), |worst| format!("  (worst {worst:.1})"));
            println!(
                "    {name:<34} {value:>12.1}{worst}{}",
                ratio(row, name, *value)
            );
        }
    }
}

/// Returns ours over a peer's figure of the same kind: `ours_p50` over `governor_p50`.
fn ratio(row: &Row, name: &str, value: f64) -> String {
    const KINDS: &[&str] = &[
        "_above_bare",
        "_allocations",
        "_p50",
        "_p99",
        "_median",
        "_fields",
    ];
    let kind = KINDS
        .iter()
        .find(|kind| name.ends_with(**kind))
        .unwrap_or(&"");
    let ours = row.get(&format!("ours{kind}")) / value;
    if name.starts_with("ours") || !ours.is_finite() {
        String::new()
    } else {
        format!("  ours is {ours:.2} of it")
    }
}

pub fn print_json(rows: &[Row]) {
    let rows: Vec<String> = rows.iter().map(json).collect();
    println!(
        "{{\"machine\":{:?},\"rows\":[\n{}\n]}}",
        machine(),
        rows.join(",\n")
    );
}

fn json(row: &Row) -> String {
    let number = |value: f64| {
        if value.is_finite() {
            format!("{value:.3}")
        } else {
            "null".to_owned()
        }
    };
    let values = row
        .values
        .iter()
        .map(|(name, value)| format!("{name:?}:{}", number(*value)));
    let worst = row
        .worst
        .iter()
        .map(|(name, value)| format!("\"{name}_worst\":{}", number(*value)));
    let fields: Vec<String> = values.chain(worst).collect();
    format!(
        "{{\"id\":{:?},\"unit\":{:?},{}}}",
        row.id,
        row.unit,
        fields.join(",")
    )
}

/// The processors' class and number: nothing that names a host.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split(':').nth(1).map(|value| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let model = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cache = field("cache size").unwrap_or_default();
    let megahertz = field("cpu MHz").unwrap_or_default();
    format!("{cores} virtual cores, {model}, {megahertz} MHz, cache {cache}")
}
