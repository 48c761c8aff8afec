//! Trace of one frame through a room by the tracepoints of the host's kernel.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use super::{LOOK, PATIENCE, Process, RouterRun};

/// Tracepoints: the way of a frame through interfaces, system calls that move it, and interrupts and doorbells of guests.
const POINTS: &str = "net/netif_rx net/netif_receive_skb net/net_dev_queue net/net_dev_start_xmit net/net_dev_xmit napi/napi_poll \
                      raw_syscalls/sys_enter raw_syscalls/sys_exit kvm/kvm_msi_set_irq kvm/kvm_fast_mmio";

/// Shell script that traces in an instance of its own until its input ends, in a mount namespace of its own: folder, name of
/// the instance, tracepoints. Those that the kernel does not have are left out.
const SCRIPT: &str = "mount -t tracefs none \"$1\" && mkdir \"$1/instances/$2\" && cd \"$1/instances/$2\" || exit 1; \
     trap 'cd /; n=0; until rmdir \"$1/instances/$2\" || [ $n = 100 ]; do n=$((n + 1)); sleep 0.1; done' EXIT; \
     for point in $3; do if [ -e \"events/$point/enable\" ]; then echo 1 > \"events/$point/enable\"; fi; done; \
     echo ready; read -r line; echo 0 > tracing_on; cat trace";

impl RouterRun {
    /// Sends one frame through the first router, and returns what the kernel's tracepoints tell of it and of everything else that
    /// happens meanwhile: the text of `trace` in tracefs.
    ///
    /// # Errors
    /// The host has no tracefs, or the frame does not come out.
    pub(crate) fn trace_one(&self) -> Result<String> {
        let place = self.folder.path.join("tracing");
        fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
        // Instances are the host's, and process numbers may be those of a namespace.
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let instance = format!("{}-{moment:x}", self.folder.id);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(&place).args([instance.as_str(), POINTS]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut tracer = Process(command.spawn().context("cannot start unshare")?);
        let mut told = BufReader::new(tracer.0.stdout.take().context("the tracer has no output")?);
        let mut line = String::new();
        told.read_line(&mut line).context("cannot hear the tracer")?;
        ensure!(
            line.trim() == "ready",
            "this host shows no tracepoints: it has no tracefs, or this is not root"
        );
        let passed = self.pass_one();
        // The end of its input ends the tracer, whatever became of the frame, and with it the instance.
        drop(tracer.0.stdin.take());
        let mut text = String::new();
        told.read_to_string(&mut text).context("cannot read the trace")?;
        tracer.0.wait().context("the tracer does not end")?;
        passed.map(|()| text)
    }

    /// Sends one frame, and waits until it has been forwarded.
    fn pass_one(&self) -> Result<()> {
        let first = || anyhow::Ok(self.forwarded()?.first().copied().unwrap_or_default());
        let before = first()?;
        ensure!(self.send(0, 1, 0) == 1, "the interface does not take a frame");
        let end = Instant::now() + PATIENCE;
        while first()? == before {
            ensure!(Instant::now() < end, "the frame does not come out");
            thread::sleep(LOOK);
        }
        Ok(())
    }
}
