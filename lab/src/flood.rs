//! `ringroad lab flood ROUTER.NIC=ADDRESS[@RATE]`: load for running routers, sent from the TAPs that their NICs are attached to.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use api::{Answer, Request};
use clap::Args;
use command_line::client::{self, Kind, unexpected};
use command_line::print;
use host::cores;
use lab::experiment::rate;
use lab::flood::{Flood, Sent, Target};
use supervisor::StopRequest;

/// Targets of a flood, and its limits.
#[derive(Args, Debug)]
pub(crate) struct FloodOptions {
    /// A NIC, the destination of the frames behind its router, and their rate, such as edge.in=198.51.100.9@130k; without a rate,
    /// as many as the TAP accepts.
    #[arg(required = true, value_name = "ROUTER.NIC=ADDRESS[@RATE]", value_parser = aim)]
    at: Vec<Aim>,
    /// The CPU that sends.
    #[arg(long)]
    cpu: Option<usize>,
    /// End after this many seconds, instead of by Ctrl-C.
    #[arg(long, value_parser = command_line::seconds)]
    seconds: Option<Duration>,
}

/// One NIC with the destination and rate of its frames.
#[derive(Clone, Debug, PartialEq)]
struct Aim {
    router: String,
    nic: String,
    to: Ipv4Addr,
    rate: Option<f64>,
}

fn aim(text: &str) -> Result<Aim, String> {
    let wrong = || "expected ROUTER.NIC=ADDRESS[@RATE], such as edge.in=198.51.100.9@130k".to_owned();
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (router, nic) = name.split_once('.').ok_or_else(wrong)?;
    let (to, often) = rest.split_once('@').map_or((rest, None), |(to, often)| (to, Some(often)));
    Ok(Aim {
        router: router.to_owned(),
        nic: nic.to_owned(),
        to: to.parse().map_err(|_| wrong())?,
        rate: often.map(rate).transpose()?,
    })
}

/// Sends, and reports how much was sent.
///
/// # Errors
/// There is no such router or NIC, it has no TAP, or the TAP is not in this network namespace.
pub(super) fn flood(options: &FloodOptions) -> Result<()> {
    let targets = options.at.iter().map(target).collect::<Result<Vec<_>>>()?;
    if let Some(cpu) = options.cpu {
        cores::pin(cpu)?;
    }
    let (stop, flood) = (StopRequest::listen()?, Flood::open(&targets)?);
    let start = Instant::now();
    let is_over = || options.seconds.is_some_and(|most| start.elapsed() >= most);
    let sent = flood.run(|| stop.is_asked() || is_over());
    let seconds = start.elapsed().as_secs_f64();
    print(&options.at.iter().zip(sent).map(|(aim, sent)| line(aim, sent, seconds)).collect::<String>())
}

/// Queries the run for the interface behind a NIC.
fn target(aim: &Aim) -> Result<Target> {
    let Aim { router, nic, to, rate } = aim;
    let mut run = client::find(router, Kind::Router)?;
    let Answer::Show(shown) = run.client.ask(&Request::Show { router: router.clone() })? else {
        return Err(unexpected().into());
    };
    let Some(found) = shown.nics.iter().find(|found| found.name == *nic) else {
        let known: Vec<&str> = shown.nics.iter().map(|nic| nic.name.as_str()).collect();
        bail!("router {router} has no NIC {nic:?}; NICs: {}", known.join(", "));
    };
    let Some(interface) = found.attach.strip_prefix("tap:") else {
        bail!(
            "{router}.{nic} is plugged into {}; only by a TAP (tap:) can it be flooded from here",
            found.attach
        );
    };
    let mac: config::Mac = found.mac.parse().with_context(|| format!("{router}.{nic} has {}", found.mac))?;
    Ok(Target { interface: interface.to_owned(), mac: mac.0, to: *to, rate: *rate })
}

fn line(aim: &Aim, sent: Sent, seconds: f64) -> String {
    let Sent { offered, taken } = sent;
    let kpps = taken as f64 / seconds * 1e-3;
    format!(
        "{}.{}: {offered} frames offered, {taken} taken by its TAP, {kpps:.1} kpps\n",
        aim.router, aim.nic
    )
}

#[cfg(test)]
mod tests;
