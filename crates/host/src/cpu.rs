//! Findings about CPUs: number, distance, stolen time, and clock.

use std::time::Duration;

use measure::processor::field;
use sched::account::{CoreTicks, cores};
use vmm::probe::tsc_khz;

use crate::{Finding, State, c2c};

/// Stolen time, in percent, from which on it shows in packet rates.
const MUCH_STEAL: f64 = 1.0;
/// Cache line round trips per measurement: enough for a stable figure, yet without a noticeable wait, even
/// between distant CPUs.
const ROUNDS: u32 = 20_000;

pub(crate) fn findings() -> Vec<Finding> {
    let cpuinfo = crate::read("/proc/cpuinfo").unwrap_or_default();
    let mut findings = vec![cpus(None), model(&cpuinfo)];
    findings.push(core_to_core());
    findings.push(governor());
    findings.push(steal());
    findings.push(tsc(&cpuinfo));
    findings
}

/// Usable CPUs, compared with the number of threads that want one of their own.
pub(crate) fn cpus(polling: Option<usize>) -> Finding {
    let cpus = crate::cpus().len();
    let figure = format!("{cpus} usable");
    match polling {
        Some(threads) if threads > cpus => {
            let meaning =
                format!("{threads} threads never sleep: they will share; give spin a time, or fewer threads");
            Finding::new(State::Note, "CPUs", figure, meaning)
        }
        _ if cpus < 2 => Finding::new(
            State::Note,
            "CPUs",
            figure,
            "a router and its I/O thread share one; rates will be low",
        ),
        _ => Finding::new(State::Ok, "CPUs", figure, "a vCPU and an I/O thread can have one each"),
    }
}

fn model(cpuinfo: &str) -> Finding {
    let name = field(cpuinfo, "model name").unwrap_or("unknown");
    let virtual_machine = flag(cpuinfo, "hypervisor");
    let meaning = if virtual_machine {
        "a virtual machine itself: its host may move CPUs and take time"
    } else {
        "real hardware"
    };
    Finding::new(State::ok_or(!virtual_machine, State::Note), "CPU model", name, meaning)
}

fn flag(cpuinfo: &str, name: &str) -> bool {
    field(cpuinfo, "flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == name))
}

fn core_to_core() -> Finding {
    let name = "core to core";
    let cpus = crate::cpus();
    let mut cpus = cpus.iter();
    let (Some(&a), Some(&b)) = (cpus.next(), cpus.next()) else {
        return Finding::new(State::Note, name, "unknown", "one CPU only");
    };
    // The fastest of three, since the others were disturbed. `min` ignores NaN.
    let once = || c2c::round_trip_ns(a as usize, b as usize, ROUNDS);
    let time = (0..3).map(|_| once()).fold(f64::NAN, f64::min);
    if time.is_nan() {
        return Finding::new(State::Note, name, "unknown", format!("CPU {a} or {b} did not answer in time"));
    }
    let meant = if time < 250.0 { "near" } else { "far: rates between these two are halved" };
    let meaning = format!("a cache line from CPU {a} to {b} and back; {meant}");
    Finding::new(State::Ok, name, format!("{time:.0} ns"), meaning)
}

fn governor() -> Finding {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    match crate::read(path) {
        None => Finding::new(State::Ok, "governor", "none", "the frequency is not ours to set"),
        Some(word) if word == "performance" => {
            Finding::new(State::Ok, "governor", word, "the frequency is kept high")
        }
        Some(word) => Finding::new(
            State::Note,
            "governor",
            word,
            "rates vary with the frequency; \"performance\" keeps it high",
        ),
    }
}

/// Stolen time as a percentage of all time since boot.
fn steal() -> Finding {
    let Some(percent) = crate::read("/proc/stat").and_then(|text| steal_percent(&text)) else {
        return Finding::new(State::Note, "steal", "unknown", "/proc/stat cannot be read");
    };
    let much = percent >= MUCH_STEAL;
    let meaning =
        if much { "the hypervisor gives our CPUs to others; rates vary" } else { "taken since boot" };
    Finding::new(State::ok_or(!much, State::Note), "steal", format!("{percent:.2} %"), meaning)
}

/// Sum over all CPUs of /proc/stat.
fn steal_percent(stat: &str) -> Option<f64> {
    let ticks = cores(stat);
    let sum = |what: fn(&CoreTicks) -> u64| ticks.values().map(what).sum::<u64>();
    let all = sum(CoreTicks::all);
    (all > 0).then(|| 100.0 * sum(|core| core.steal) as f64 / all as f64)
}

fn tsc(cpuinfo: &str) -> Finding {
    let steady = flag(cpuinfo, "constant_tsc") && flag(cpuinfo, "nonstop_tsc");
    let mhz = tsc_khz(Duration::from_millis(20)) / 1000;
    let meaning = if steady {
        "invariant: guests can tell the time by it"
    } else {
        "not said to be invariant: guests' clocks may drift"
    };
    Finding::new(State::ok_or(steady, State::Note), "TSC", format!("{mhz} MHz"), meaning)
}

#[cfg(test)]
mod tests;
