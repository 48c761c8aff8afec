//! Placements and scheduling settings of the experiments with a single router.

use anyhow::Result;
use config::VhostThreads;

use super::on;
use super::sweep::{Loads, RouterPlacement};
use crate::experiment::Options;
use crate::rig::router_run::GroupShape;

/// End of a case's name, and the placement of its router, or why this host cannot provide it.
pub(in crate::experiments) type Case = (String, Result<RouterPlacement>);

/// Reservation periods in milliseconds: the paper's, and a short one.
const PERIODS: [f64; 2] = [200.0, 10.0];
/// Reserved shares of the period: the paper's, 70 to 190 of 200 ms, up to the most that kernels with a fair server admit.
const PARTS: [f64; 8] = [0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.9, 0.95];

pub(super) fn stand(lines: String, cpu: usize) -> RouterPlacement {
    RouterPlacement {
        lines,
        vhost: VhostThreads::Shared,
        vcpus: 1,
        queue_len: None,
        arrive_at: None,
        beside_load: false,
        cpu,
        loads: Loads::All,
        group: None,
        seats: None,
    }
}

/// All threads of the router on the second CPU of the options.
fn together(options: &Options) -> Result<RouterPlacement> {
    let cpu = options.cpu(1)?;
    Ok(stand(on(cpu), cpu))
}

/// vCPU and vhost thread each pinned to CPUs of its own.
fn pinned(vcpu: &str, vhost: &str) -> String {
    format!("pin = {{ vcpu = \"{vcpu}\", vhost = \"{vhost}\" }}\n")
}

/// vCPU and vhost thread both free on a set of CPUs.
pub(in crate::experiments) fn free_on(cpus: &str) -> String {
    format!("affinity = {{ vcpu = \"{cpus}\", vhost = \"{cpus}\" }}\n")
}

/// The CPUs of the options at these indices, as a comma-separated list.
pub(super) fn list(options: &Options, places: &[usize]) -> Result<String> {
    let cpus: Vec<String> = places.iter().map(|&n| Ok(options.cpu(n)?.to_string())).collect::<Result<_>>()?;
    Ok(cpus.join(","))
}

/// `placement`: router on one core, two, and more, bound or not (seed paper 000, figure 2). The load generator has the first CPU; a
/// router with two cores shares it.
pub(in crate::experiments) fn placements(options: &Options) -> Vec<Case> {
    let one_core = || together(options).map(|stand| RouterPlacement { arrive_at: Some(stand.cpu), ..stand });
    let two_cores = |lines: fn(&str, &str) -> String| {
        let (first, second) = (options.cpu(0)?, options.cpu(1)?);
        let lines = lines(&first.to_string(), &second.to_string());
        Ok(RouterPlacement { beside_load: true, ..stand(lines, second) })
    };
    // Load generator on the first CPU, interrupts on the second.
    let four_cores = |lines: &dyn Fn() -> Result<String>| {
        let (interrupts, _) = (options.cpu(1)?, options.cpu(4)?);
        Ok(RouterPlacement { arrive_at: Some(interrupts), ..stand(lines()?, options.cpu(3)?) })
    };
    let free = || Ok(free_on(&list(options, &[1, 2, 3, 4])?));
    let away = || Ok(free_on(&list(options, &[2, 3, 4])?));
    let bound = || Ok(pinned(&list(options, &[2])?, &list(options, &[3])?));
    vec![
        ("1-core".to_owned(), one_core()),
        ("2-cores".to_owned(), two_cores(|first, second| free_on(&format!("{first},{second}")))),
        ("2-cores-bind".to_owned(), two_cores(pinned)),
        ("4-cores".to_owned(), four_cores(&free)),
        ("4-cores-affinity".to_owned(), four_cores(&away)),
        ("4-cores-bind".to_owned(), four_cores(&bound)),
    ]
}

/// `parallel`: one to four routers that are one, on two cores beside the load, and on four without it, bound and not (figure 18). One
/// alone is bound as in `placement`; CPUs of several are dealt out over them.
pub(in crate::experiments) fn parallel(options: &Options) -> Vec<Case> {
    let bound = |vcpu: &[usize], vhost: &[usize]| Ok(pinned(&list(options, vcpu)?, &list(options, vhost)?));
    let free = |places: &[usize]| Ok(free_on(&list(options, places)?));
    let two_cores = |members: Option<u32>, is_bound: bool| {
        let lines: Result<String> = match (members, is_bound) {
            (_, false) => free(&[0, 1]),
            (None, true) => bound(&[0], &[1]),
            (Some(_), true) => bound(&[0, 1], &[0, 1]),
        };
        let group = members.map(GroupShape::Parallel);
        Ok(RouterPlacement { beside_load: true, group, ..stand(lines?, options.cpu(1)?) })
    };
    // The load on the first, interrupts on the second.
    let four_cores = |members: Option<u32>, is_bound: bool| {
        let lines: Result<String> = match (members, is_bound) {
            (_, false) => free(&[1, 2, 3, 4]),
            (None, true) => bound(&[2], &[3]),
            (Some(_), true) => bound(&[2, 3, 4], &[3, 4]),
        };
        let group = members.map(GroupShape::Parallel);
        Ok(RouterPlacement { arrive_at: Some(options.cpu(1)?), group, ..stand(lines?, options.cpu(3)?) })
    };
    let mut cases = vec![
        ("2-cores/1-bind".to_owned(), two_cores(None, true)),
        ("4-cores/1-bind".to_owned(), four_cores(None, true)),
    ];
    for members in 2..=4 {
        for (end, is_bound) in [("", false), ("-bind", true)] {
            cases.push((format!("2-cores/{members}{end}"), two_cores(Some(members), is_bound)));
            cases.push((format!("4-cores/{members}{end}"), four_cores(Some(members), is_bound)));
        }
    }
    cases
}

/// `priorities`: real-time priorities of vCPU and vhost thread on one CPU (figure 3). Interrupts are on the load generator's CPU; there
/// is a vhost thread for each NIC, as with the paper's vhost-net, or one for all NICs.
pub(in crate::experiments) fn priorities(options: &Options) -> Vec<Case> {
    let fifo = |vcpu: u32, vhost: u32, threads| {
        let stand = together(options)?;
        let class = |priority| format!("{{ policy = \"fifo\", priority = {priority} }}");
        let sched = format!("sched = {{ vcpu = {}, vhost = {} }}\n", class(vcpu), class(vhost));
        Ok(RouterPlacement { lines: format!("{}{sched}", stand.lines), vhost: threads, ..stand })
    };
    vec![
        ("vc98-vh99".to_owned(), fifo(98, 99, VhostThreads::PerNic)),
        ("vc99-vh98".to_owned(), fifo(99, 98, VhostThreads::PerNic)),
        ("vc99-vh99".to_owned(), fifo(99, 99, VhostThreads::PerNic)),
        ("one-vhost".to_owned(), fifo(99, 98, VhostThreads::Shared)),
        ("default".to_owned(), together(options)),
        ("2-cores".to_owned(), apart(options, Class::Vhost)),
    ]
}

/// `threads`: one or two vhost threads and vCPUs (figures 4 to 7), on one CPU together and on CPUs of their own.
pub(in crate::experiments) fn threads(options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, vhost, vcpus) in [
        ("1v1c", VhostThreads::Shared, 1),
        ("2v1c", VhostThreads::Split, 1),
        ("1v2c", VhostThreads::Shared, 2),
    ] {
        let together = together(options).map(|stand| RouterPlacement { vhost, vcpus, ..stand });
        // Load generator on the first CPU, interrupts on the second.
        let own = || {
            let vcpu_places: &[usize] = if vcpus == 2 { &[2, 4] } else { &[2] };
            let vhost_places: &[usize] = if vhost == VhostThreads::Split { &[3, 4] } else { &[3] };
            let (interrupts, cpu) = (options.cpu(1)?, options.cpu(3)?);
            let lines = pinned(&list(options, vcpu_places)?, &list(options, vhost_places)?);
            options.cpu(4)?;
            Ok(RouterPlacement { vhost, vcpus, arrive_at: Some(interrupts), ..stand(lines, cpu) })
        };
        cases.push((format!("{name}/together"), together));
        cases.push((format!("{name}/own-cores"), own()));
    }
    cases
}

/// Class of the thread that has a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Vhost,
    Vcpu,
}

/// Places the thread of this class on the contended CPU, the other thread on the load generator's CPU.
fn apart(options: &Options, class: Class) -> Result<RouterPlacement> {
    let (beside, cpu) = (options.cpu(0)?, options.cpu(1)?);
    let (other, here) = (beside.to_string(), cpu.to_string());
    let lines = match class {
        Class::Vhost => pinned(&other, &here),
        Class::Vcpu => pinned(&here, &other),
    };
    Ok(RouterPlacement { beside_load: true, ..stand(lines, cpu) })
}

/// Returns the vhost setting with which a thread of this class carries the load.
const fn carrying(class: Class) -> VhostThreads {
    match class {
        Class::Vhost => VhostThreads::Shared,
        // The vCPU thread hands frames to the kernel itself.
        Class::Vcpu => VhostThreads::Vmm,
    }
}

/// Configuration line that reserves a share of a CPU for a thread.
fn reserved(class: Class, part: f64, period: f64) -> String {
    let class = match class {
        Class::Vhost => "vhost",
        Class::Vcpu => "vcpu",
    };
    let runtime = (part * period * 1000.0).round();
    format!(
        "sched = {{ {class} = {{ policy = \"deadline\", runtime = \"{runtime}us\", period = \"{}us\" }} }}\n",
        period * 1000.0
    )
}

/// `reservation`: share of a CPU reserved for the vhost thread or the vCPU. Figures 10 (vhost thread, CPUs apart), 11 (vCPU, apart) and
/// 12 (vCPU, one CPU); each also with a short period, and without a reservation, for the plateau.
pub(in crate::experiments) fn reservations(options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    for (place, class) in
        [("vhost/apart", Class::Vhost), ("vcpu/apart", Class::Vcpu), ("vcpu/same", Class::Vcpu)]
    {
        let base = || {
            let stand = if place == "vcpu/same" { together(options) } else { apart(options, class) };
            stand.map(|stand| RouterPlacement { vhost: carrying(class), ..stand })
        };
        let free = base().map(|stand| RouterPlacement { loads: Loads::FewInPeriods, ..stand });
        cases.push((format!("{place}/free"), free));
        for period in PERIODS {
            let loads = if period > 100.0 { Loads::FewInPeriods } else { Loads::Full };
            for part in PARTS {
                let stand = base().map(|stand| RouterPlacement {
                    lines: format!("{}{}", stand.lines, reserved(class, part, period)),
                    loads,
                    ..stand
                });
                cases.push((format!("{place}/Q={part}/T={period}"), stand));
            }
        }
    }
    cases
}

/// `reserved-queue`: lengths of the queue in front of a router with a reserved vCPU (figures 14 and 15). The vCPU has 170 or 90 of 200
/// ms reserved, or nothing; both threads are on one CPU.
pub(in crate::experiments) fn reserved_queues(options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: &str, line: String, length: &'static str| {
        let stand = together(options).map(|stand| RouterPlacement {
            lines: format!("{}{line}", stand.lines),
            queue_len: Some(length),
            vhost: carrying(Class::Vcpu),
            loads: Loads::AllInPeriods,
            ..stand
        });
        cases.push((format!("{name}/queue_len={length}"), stand));
    };
    for runtime in [170.0, 90.0] {
        for length in ["5", "35", "50", "110", "500"] {
            let line = reserved(Class::Vcpu, runtime / 200.0, 200.0);
            case(&format!("Q={runtime}"), line, length);
        }
    }
    for length in ["50", "500"] {
        case("free", String::new(), length);
    }
    cases
}

#[cfg(test)]
mod tests;
