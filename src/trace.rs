//! `ringroad trace NAME.NIC`: traces packets that arrive at a NIC to where they leave or end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use api::{Answer, Fate, Filter, Packet, Request, TraceEnd};
use clap::Args;
use command_line::client::{self, Kind, unexpected};
use serde_json::json;

/// Extra time for the run's answer: it checks its traces ten times a second, and may be late when busy.
const SLACK: Duration = Duration::from_secs(10);

/// Options of `ringroad trace`.
#[derive(Args)]
pub(crate) struct Options {
    /// Router and NIC, as in `edge.wan`
    nic: String,
    /// End after so many packets
    #[arg(long, default_value_t = 10)]
    count: u32,
    /// End after so many seconds
    #[arg(long, default_value = "30", value_parser = command_line::seconds)]
    seconds: Duration,
    /// Only packets from this address
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Only packets to this address
    #[arg(long, value_name = "ADDRESS")]
    to: Option<IpAddr>,
    /// Only packets of this protocol: icmp, icmp6, tcp, udp or a number
    #[arg(long, value_parser = protocol)]
    protocol: Option<u8>,
    /// Only TCP and UDP packets from or to this port
    #[arg(long)]
    port: Option<u16>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

fn protocol(word: &str) -> Result<u8, String> {
    match word {
        "icmp" => Ok(frame::ipv4::ICMP),
        "icmp6" => Ok(frame::ipv6::next::ICMP),
        "tcp" => Ok(frame::ipv4::TCP),
        "udp" => Ok(frame::ipv4::UDP),
        number => number.parse().map_err(|_| "write icmp, icmp6, tcp, udp or a number up to 255".to_owned()),
    }
}

impl Options {
    fn request(&self, router: &str, nic: &str) -> Request {
        let filter =
            Filter { source: self.from, destination: self.to, protocol: self.protocol, port: self.port };
        let filter = (filter != Filter::default()).then_some(filter);
        let timeout_ms = u64::try_from(self.seconds.as_millis()).unwrap_or(u64::MAX);
        let (router, nic) = (router.to_owned(), nic.to_owned());
        Request::Trace { router, nic, count: self.count, timeout_ms, filter }
    }
}

/// Prints packets as they are traced, and the number of those that were not examined; it also ends when nobody
/// reads what it prints any more.
///
/// # Errors
/// There is no such router or NIC, or the run goes away.
pub(crate) fn trace(options: &Options) -> Result<()> {
    let Some((router, nic)) = options.nic.split_once('.') else {
        bail!("{:?} names no NIC; write e.g. edge.wan", options.nic);
    };
    let mut target = client::find(router, Kind::Router)?;
    target.client.set_timeout(options.seconds.saturating_add(SLACK));
    target.client.send(&options.request(router, nic))?;
    loop {
        match target.client.next_answer()? {
            Answer::Packet(packet) => {
                let told = if options.json { line(&packet) } else { text(&packet) };
                if !command_line::print_while_read(&client::plain(&told))? {
                    return Ok(());
                }
            }
            Answer::Traced(end) if options.json => return client::print_from_run(&last_line(&end)),
            Answer::Traced(end) => return client::print_from_run(&summary(&end)),
            _ => return Err(unexpected().into()),
        }
    }
}

fn line(packet: &Packet) -> String {
    json!(packet).to_string() + "\n"
}

fn last_line(end: &TraceEnd) -> String {
    json!({ "traced": end }).to_string() + "\n"
}

/// One line for each sighting, and one for its fate.
fn text(packet: &Packet) -> String {
    let mut text = format!(
        "#{} at {:.6} s, {} octets: {}\n",
        packet.number,
        packet.at_ns as f64 * 1e-9,
        packet.len,
        packet.headers
    );
    for hop in &packet.hops {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:>10}  {:<20} {}", micros(hop.after_ns), hop.place, hop.seen);
    }
    text + "  " + &fate(&packet.fate) + "\n"
}

fn fate(fate: &Fate) -> String {
    match fate {
        Fate::Left { nic, next_hop, route, via, after_ns } => {
            let route = route.as_ref().map_or_else(String::new, |route| format!(" on route {route}"));
            let via = via.as_ref().map_or_else(String::new, |via| format!(" via {via}"));
            format!("left by {nic}{route}{via} to {next_hop} after {}", micros(*after_ns))
        }
        Fate::Answered { nic, answer, after_ns, counters } => {
            format!("answered by {nic} after {}: {answer}{}", micros(*after_ns), moved(counters))
        }
        Fate::Dropped { reason, after_ns } => {
            format!("dropped by the kernel after {}: {reason}", micros(*after_ns))
        }
        Fate::Kept { after_ns: Some(after_ns) } => {
            format!("kept by the router itself after {}", micros(*after_ns))
        }
        Fate::Kept { after_ns: None } => "kept by the router itself".to_owned(),
        Fate::NotPlaced { place, counters } => format!("dropped: {place} did not take it{}", moved(counters)),
        Fate::NotSeen { last, counters } if counters.is_empty() => {
            format!("not seen again after {last}; no counter of drops has moved")
        }
        Fate::NotSeen { last, counters } => format!("not seen again after {last}{}", moved(counters)),
    }
}

fn moved(counters: &BTreeMap<String, u64>) -> String {
    let counters: Vec<String> = counters.iter().map(|(name, by)| format!("{name} {by}")).collect();
    if counters.is_empty() { String::new() } else { format!("; moved meanwhile: {}", counters.join(", ")) }
}

fn micros(ns: u64) -> String {
    format!("{:.1} µs", ns as f64 * 1e-3)
}

fn summary(end: &TraceEnd) -> String {
    format!(
        "{} packets followed in {:.1} s; {} did not fit, {} were not looked at\n",
        end.traced,
        end.ran_ns as f64 * 1e-9,
        end.filtered,
        end.not_looked_at
    )
}

#[cfg(test)]
mod tests;
