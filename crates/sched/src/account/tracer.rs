//! Tracer of time in interrupt handlers and softirqs, to the nanosecond, by eBPF programs at the kernel's
//! tracepoints.
//!
//! A program at the entry and the exit of each handler adds its time to the core's account, and to the
//! account of the interrupted thread if that is watched. There are two words per thread and a few per core;
//! no events are passed to user space. The cost is two readings of the clock and two map look-ups for each
//! softirq, and the tracer is off unless a client asks for it. It needs CAP_BPF and CAP_PERFMON (root) and a
//! kernel with `CONFIG_BPF_EVENTS`. Nothing is mounted, and everything disappears with its descriptors.

mod program;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bpf::{Kind, Map, Purpose, attach_to_tracepoint};

use super::reader::now;
use super::{Interrupts, Traced};
use program::{CORE_WORDS, End, Maps};

/// Most threads that can be watched.
const MOST_THREADS: u32 = 4096;
/// Tracepoints of hard interrupts; the kernel may lack all but the first, which belong to its own interrupts.
const INTERRUPTS: [&str; 5] =
    ["irq_handler", "local_timer", "reschedule", "call_function", "call_function_single"];

/// The attached programs. Dropping this detaches them.
#[derive(Debug)]
pub struct Tracer {
    core: Map,
    threads: Map,
    watched: Vec<i32>,
    since_ns: u64,
    _attached: Vec<OwnedFd>,
}

impl Tracer {
    /// Starts to trace.
    ///
    /// # Errors
    /// The process lacks privileges, or the kernel lacks support.
    pub fn start() -> io::Result<Self> {
        let core = Map::new(Kind::ArrayOfEachCpu, 8 * CORE_WORDS as u32, 1)?;
        let threads = Map::new(Kind::Hash, 16, MOST_THREADS)?;
        let maps = Maps { core: core.as_fd(), threads: threads.as_fd() };
        let load = |end| bpf::load(Purpose::Tracepoint, &program::assemble(end, &maps));
        let [begins, ends] = [load(End::InterruptBegins)?, load(End::InterruptEnds)?];
        let mut attached = Vec::new();
        for (point, end) in [("softirq_entry", End::SoftirqBegins), ("softirq_exit", End::SoftirqEnds)] {
            attached.push(attach_to_tracepoint(point, load(end)?.as_fd())?);
        }
        for (n, point) in INTERRUPTS.iter().enumerate() {
            let both = attach_to_tracepoint(&format!("{point}_entry"), begins.as_fd())
                .and_then(|begin| Ok([begin, attach_to_tracepoint(&format!("{point}_exit"), ends.as_fd())?]));
            match both {
                Ok(both) => attached.extend(both),
                Err(error) if n == 0 => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Self { core, threads, watched: Vec::new(), since_ns: now(), _attached: attached })
    }

    /// Replaces the set of watched threads, given by number.
    ///
    /// # Errors
    /// There are more than 4096.
    pub fn watch(&mut self, threads: &[i32]) -> io::Result<()> {
        for gone in self.watched.iter().filter(|known| !threads.contains(known)) {
            // The entry exists, as it was put there.
            let _ = self.threads.remove(gone.cast_unsigned());
        }
        let known = std::mem::take(&mut self.watched);
        for new in threads.iter().filter(|new| !known.contains(new)) {
            self.threads.put(new.cast_unsigned(), &[0; 16])?;
        }
        self.watched = threads.to_vec();
        Ok(())
    }

    /// Reads the times measured so far.
    pub fn read(&self) -> Traced {
        let mut cores = BTreeMap::new();
        let mut words = vec![0; self.core.len_of_value() / 8];
        if self.core.get(0, &mut words).is_ok() {
            for (cpu, core) in words.chunks_exact(CORE_WORDS).enumerate() {
                let known = Interrupts { irq_ns: core[program::IRQ], softirq_ns: core[program::SOFTIRQ] };
                cores.insert(cpu as u32, known);
            }
        }
        let thread = |tid: &i32| {
            let mut words = [0; 2];
            self.threads.get(tid.cast_unsigned(), &mut words).ok()?;
            Some((*tid, Interrupts { irq_ns: words[0], softirq_ns: words[1] }))
        };
        let threads = self.watched.iter().filter_map(thread).collect();
        Traced { since_ns: self.since_ns, cores, threads }
    }
}

#[cfg(test)]
mod tests;
