//! Namespaces of the client and the server, with iperf3 in both.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use uplink::Netns;

use crate::rig::router_run::Process;

/// Timeout for the server to listen.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two checks whether it listens.
const PAUSE: Duration = Duration::from_millis(20);
/// Shortest measurement: iperf3 measures whole seconds.
const SHORTEST: Duration = Duration::from_secs(1);

/// Both namespaces, with the running server.
pub(super) struct Ends {
    /// The server. It reports nothing when it ends, and can only be ended by a signal.
    iperf: Process,
    pub(super) client: Netns,
    pub(super) server: Netns,
}

impl Ends {
    /// Creates the namespaces, and starts the server.
    pub(super) fn open() -> Result<Self> {
        let [client, server] = [Netns::new()?, Netns::new()?];
        for netns in [&client, &server] {
            netns.settle(false)?;
        }
        let iperf = silent(&mut server.command("iperf3")).arg("-s").spawn();
        let iperf = iperf.context("cannot start iperf3; install the package iperf3")?;
        let mut ends = Self { iperf: Process(iperf), client, server };
        ends.wait_for_server()?;
        Ok(ends)
    }

    fn wait_for_server(&mut self) -> Result<()> {
        let start = Instant::now();
        while run(&self.server, &["-c", "127.0.0.1", "-n", "1K"]).is_err() {
            if start.elapsed() > PATIENCE || self.iperf.0.try_wait()?.is_some() {
                bail!("iperf3 does not listen");
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Runs one stream to this address; returns the Gbit/s of payload that arrived.
    pub(super) fn stream(&self, to: Ipv4Addr, length: Duration) -> Result<f64> {
        let (seconds, to) = (length.max(SHORTEST).as_secs().to_string(), to.to_string());
        let start = Instant::now();
        loop {
            match run(&self.client, &["--connect-timeout", "5000", "-t", &seconds, "-c", &to]) {
                // The server serves one client at a time, and may still be busy with the previous one.
                Err(error) if error.to_string().contains("busy") && start.elapsed() < PATIENCE => {
                    thread::sleep(PAUSE);
                }
                result => return result,
            }
        }
    }
}

/// Runs an iperf3 client; returns the Gbit/s of payload that arrived.
fn run(netns: &Netns, arguments: &[&str]) -> Result<f64> {
    let mut command = netns.command("iperf3");
    command.arg("--json").args(arguments).stdin(Stdio::null());
    let output = command.output().context("cannot start iperf3")?;
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("iperf3 gave no report")?;
    if let Some(error) = report.get("error").and_then(serde_json::Value::as_str) {
        bail!("iperf3: {error}");
    }
    let rate = report.pointer("/end/sum_received/bits_per_second").and_then(serde_json::Value::as_f64);
    Ok(rate.context("iperf3 reports no rate")? * 1e-9)
}

fn silent(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}
