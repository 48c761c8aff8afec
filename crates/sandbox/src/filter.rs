//! seccomp filters, compiled once for each class and entered by its threads.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use crate::class::{self, Class};
use crate::rules::{Allowed, any};
use crate::violation;

/// Filters of a class, one for each kind of answer: the kernel runs all filters of a thread and takes the
/// strictest answer. Calls whose arguments do not matter are answered from a cache that the kernel builds
/// when a filter is entered (since Linux 5.11), without running it. Before Linux 5.16 a thread with a filter
/// also runs without speculative store bypass (`spec_store_bypass_disable=seccomp`), which slows down
/// memory-intensive code.
struct Filters {
    /// Ends the process at every call that is not listed.
    trap: BpfProgram,
    /// Answers listed calls by EACCES.
    refuse: BpfProgram,
    /// Answers the listed call by ENOSYS.
    absent: BpfProgram,
}

impl Filters {
    fn of(class: Class) -> Result<Self> {
        let refuse = SeccompAction::Errno(libc::EACCES as u32);
        let absent = SeccompAction::Errno(libc::ENOSYS as u32);
        Ok(Self {
            trap: program(&class.allowed(), SeccompAction::Trap, SeccompAction::Allow)?,
            refuse: program(&class::refused(), SeccompAction::Allow, refuse)?,
            absent: program(&[any(class::ABSENT)], SeccompAction::Allow, absent)?,
        })
    }

    /// Returns the filters of a class; the first caller compiles them.
    fn get(class: Class) -> Result<&'static Self> {
        static MADE: [OnceLock<Result<Filters, String>>; Class::ALL.len()] =
            [const { OnceLock::new() }; Class::ALL.len()];
        let made = MADE.get(class as usize).context("a class without a place")?;
        let filters = made.get_or_init(|| Self::of(class).map_err(|error| format!("{error:#}")));
        filters.as_ref().map_err(|error| anyhow!("cannot make the filter of class {}: {error}", class.name()))
    }

    /// The most lenient filter comes first, the one that may forbid entering further filters last. A thread
    /// that is confined already has the first two, which are the same for all classes.
    fn in_order(&self, is_confined: bool) -> impl Iterator<Item = &BpfProgram> {
        [&self.absent, &self.refuse, &self.trap].into_iter().skip(if is_confined { 2 } else { 0 })
    }
}

fn program(calls: &[Allowed], others: SeccompAction, these: SeccompAction) -> Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).context("no filters for this kind of CPU")?;
    let mut rules = BTreeMap::new();
    for (number, choices) in calls.iter().map(Allowed::rules).collect::<Result<Vec<_>, _>>()? {
        // A second list for a call would replace the first or be widened by it.
        ensure!(rules.insert(number, choices).is_none(), "call {number} is listed twice");
    }
    Ok(SeccompFilter::new(rules, others, these, arch)?.try_into()?)
}

/// Confines the calling thread, and every thread that it starts, by the filter of `class`. This is
/// irreversible, and a second class only removes more; [`Class::Control`] and [`Class::NewVcpu`] allow
/// entering one.
///
/// # Errors
/// In one line, that the kernel has no seccomp filters, or that the thread may not enter one any more.
pub fn confine(class: Class) -> Result<()> {
    let filters = Filters::get(class)?;
    cache_lookups();
    violation::install_handler()?;
    let is_confined = violation::is_confined();
    violation::remember(class);
    for filter in filters.in_order(is_confined) {
        seccompiler::apply_filter(filter).with_context(|| {
            format!(
                "cannot confine a thread of class {}; this needs a kernel with seccomp filters",
                class.name()
            )
        })?;
    }
    Ok(())
}

/// Looks up values that are cached but could not be determined later: the location of the kernel's clock, and
/// the page size. Kernels before Linux 6.4 report it in a file.
pub(crate) fn cache_lookups() {
    rustix::param::page_size();
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
}
