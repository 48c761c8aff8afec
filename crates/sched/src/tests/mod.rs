//! Tests of what is pure. Those that ask a kernel are in `tests/`.

mod admission;
mod any_host;
mod cgroup;
mod plan;
mod topology;

use crate::{Known, Outline, Topology};

/// A router's table with these lines, two NICs, and one vCPU and one vhost thread if they do not say otherwise.
pub(crate) fn router(name: &str, lines: &str) -> String {
    format!(
        "[[router]]\nname = \"{name}\"\n{lines}\nmemory = \"256M\"\n[[router.nic]]\nname = \"a\"\nattach = \"null\"\n\
         [[router.nic]]\nname = \"b\"\nattach = \"null\"\n"
    )
}

pub(crate) fn plan(text: &str) -> config::Plan {
    config::parse(text, "f.toml").expect("a good file")
}

/// A host of so many plain CPUs on which everything can be had.
pub(crate) fn host(cpus: u32) -> Known {
    Known { topology: Topology::plain(cpus), ..Known::default() }
}

#[track_caller]
pub(crate) fn outline(text: &str, known: &Known) -> Outline {
    let plan = plan(text);
    crate::outline(&plan, known).unwrap_or_else(|refused| panic!("{}", crate::refused(&plan, refused)))
}

#[track_caller]
pub(crate) fn refusal(text: &str, known: &Known) -> String {
    let plan = plan(text);
    let refused = crate::outline(&plan, known).expect_err("something that cannot be had");
    crate::refused(&plan, refused).to_string()
}

/// Where each thread is: `edge/vcpu0 1`, `edge/vhost any`.
pub(crate) fn places(outline: &Outline) -> Vec<String> {
    let place = |slot: &crate::Slot| {
        let cpus = slot.schedule.cpus.as_ref().map_or_else(|| "any".to_owned(), ToString::to_string);
        format!("{} {cpus}", slot.name)
    };
    outline.slots.iter().map(place).collect()
}
