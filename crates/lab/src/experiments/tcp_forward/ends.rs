//! The namespaces in which a stream begins and ends, and iperf3 in both.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use uplink::Netns;

use crate::rig::room::Process;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks whether it does.
const PAUSE: Duration = Duration::from_millis(20);
/// iperf3 measures whole seconds, and these.
const SHORTEST: Duration = Duration::from_secs(1);

/// Both namespaces.
pub(super) struct Ends {
    /// The server. It has nothing to tell when it ends, and cannot be told to end but by a signal.
    iperf: Process,
    pub(super) client: Netns,
    pub(super) server: Netns,
}

impl Ends {
    /// Makes them, and starts the server.
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

    /// One stream to this address; Gbit/s of payload that arrived.
    pub(super) fn stream(&self, to: Ipv4Addr, length: Duration) -> Result<f64> {
        let (seconds, to) = (length.max(SHORTEST).as_secs().to_string(), to.to_string());
        let start = Instant::now();
        loop {
            match run(&self.client, &["--connect-timeout", "5000", "-t", &seconds, "-c", &to]) {
                // The server serves one at a time, and may not be done with the one before.
                Err(error) if error.to_string().contains("busy") && start.elapsed() < PATIENCE => {
                    thread::sleep(PAUSE);
                }
                result => return result,
            }
        }
    }
}

/// Calls the server; Gbit/s of payload that arrived.
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
