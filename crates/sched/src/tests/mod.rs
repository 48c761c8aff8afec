//! Tests of pure code. Tests that need a kernel are in `tests/`.

mod admission;
mod any_host;
mod cgroup;
mod plan;
mod topology;

use crate::{Outline, SchedFacts, Topology};

/// Router table with these lines, two NICs, and, unless they say otherwise, one vCPU and one vhost thread.
pub(crate) fn router(name: &str, lines: &str) -> String {
    format!(
        "[[router]]\nname = \"{name}\"\n{lines}\nmemory = \"256M\"\n[[router.nic]]\nname = \"a\"\nattach = \"null\"\n\
         [[router.nic]]\nname = \"b\"\nattach = \"null\"\n"
    )
}

pub(crate) fn plan(text: &str) -> config::Plan {
    config::parse(text, "f.toml").expect("a good file")
}

/// Host of so many plain CPUs, without restrictions.
pub(crate) fn host(cpus: u32) -> SchedFacts {
    SchedFacts { topology: Topology::plain(cpus), ..SchedFacts::default() }
}

#[track_caller]
pub(crate) fn outline(text: &str, known: &SchedFacts) -> Outline {
    let plan = plan(text);
    crate::outline(&plan, known).unwrap_or_else(|refused| panic!("{}", crate::refused(&plan, refused)))
}

#[track_caller]
pub(crate) fn refusal(text: &str, known: &SchedFacts) -> String {
    let plan = plan(text);
    let refused = crate::outline(&plan, known).expect_err("something that cannot be had");
    crate::refused(&plan, refused).to_string()
}

/// Place of each thread: `edge/vcpu0 1`, `edge/vhost any`.
pub(crate) fn places(outline: &Outline) -> Vec<String> {
    let place = |slot: &crate::Slot| {
        let cpus = slot.schedule.cpus.as_ref().map_or_else(|| "any".to_owned(), ToString::to_string);
        format!("{} {cpus}", slot.name)
    };
    outline.slots.iter().map(place).collect()
}
