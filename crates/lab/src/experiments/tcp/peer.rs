//! Linux's side of a TCP connection with a guest.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bootinfo::Station;

use crate::device;
use crate::rig::host_end::{DISCARD, HostEnd};
use crate::rig::{Stop, Worker};

/// Port of the echo service (RFC 862).
const ECHO: u16 = 7;
/// Timeout of blocking socket calls, so that the thread can be stopped promptly.
const PATIENCE: Duration = Duration::from_millis(50);
/// Timeout for establishing a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Octets per read.
const READ: usize = 64 << 10;

/// Linux's side of a TCP connection; see the module documentation.
pub(super) struct Peer {
    worker: Worker<()>,
    octets: Arc<AtomicU64>,
}

impl Peer {
    /// Opens the listener for the connection of a guest's station, before the guest connects; none if the host connects.
    pub(super) fn listen(host: &HostEnd, station: Station) -> Result<Option<TcpListener>> {
        match station {
            Station::TcpStream => host.listen(DISCARD).map(Some),
            Station::TcpRequests => host.listen(ECHO).map(Some),
            Station::Server => Ok(None),
            Station::UdpStream => bail!("datagrams have no connection"),
        }
    }

    /// Starts the counterpart of the station.
    pub(super) fn start(
        host: &HostEnd,
        station: Station,
        listener: Option<TcpListener>,
        write: usize,
    ) -> Result<Self> {
        let octets = Arc::<AtomicU64>::default();
        let count = octets.clone();
        let worker = match listener {
            Some(listener) if station == Station::TcpStream => Worker::start("lab/discard", move |stop| {
                attend(&listener, stop, |stream| discard(stream, &count))
            }),
            Some(listener) => Worker::start("lab/echo", move |stop| attend(&listener, stop, echo)),
            None => {
                let call = || TcpStream::connect_timeout(&(device::NEAR, DISCARD).into(), CONNECT);
                let stream = host.inside(call)?.context("the guest takes no connection")?;
                Worker::start("lab/caller", move |stop| send(stream, write, stop))
            }
        };
        Ok(Self { worker: worker?, octets })
    }

    /// Octets received from the guest.
    pub(super) fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }

    /// Fails if the thread has ended.
    pub(super) fn check(&self) -> Result<()> {
        if self.worker.is_over() {
            Err(anyhow!("the host's side of the connection has ended"))
        } else {
            Ok(())
        }
    }
}

/// Serves one connection after the other until told to stop. `serve` does a piece of work; it returns false when the
/// client has gone.
fn attend(
    listener: &TcpListener,
    stop: &Stop,
    mut serve: impl FnMut(&mut TcpStream) -> std::io::Result<bool>,
) -> Result<()> {
    listener.set_nonblocking(true).context("cannot set a socket")?;
    let mut visitor: Option<TcpStream> = None;
    while !stop.is_set() {
        match &mut visitor {
            Some(stream) => match serve(stream) {
                Ok(true) => {}
                Err(error) if is_pause(&error) => {}
                Ok(false) | Err(_) => visitor = None,
            },
            None => match listener.accept() {
                Ok((stream, _)) => visitor = Some(prepared(stream)?),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            },
        }
    }
    Ok(())
}

fn prepared(stream: TcpStream) -> Result<TcpStream> {
    let set = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    set.context("cannot set a socket")?;
    Ok(stream)
}

fn is_pause(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn discard(stream: &mut TcpStream, count: &AtomicU64) -> std::io::Result<bool> {
    let mut octets = [0; READ];
    let read = stream.read(&mut octets)?;
    count.fetch_add(read as u64, Ordering::Relaxed);
    Ok(read > 0)
}

fn echo(stream: &mut TcpStream) -> std::io::Result<bool> {
    let mut octets = [0; 64];
    let read = stream.read(&mut octets)?;
    stream.write_all(&octets[..read])?;
    Ok(read > 0)
}

/// Sends as much as the guest accepts, in writes of `write` octets.
fn send(stream: TcpStream, write: usize, stop: &Stop) -> Result<()> {
    let mut stream = prepared(stream)?;
    stream.set_nodelay(false).context("cannot set a socket")?;
    let octets = vec![0x5a; write];
    while !stop.is_set() {
        match stream.write(&octets) {
            Ok(0) => bail!("the guest has closed the connection"),
            Ok(_) => {}
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error).context("cannot send to the guest"),
        }
    }
    Ok(())
}
