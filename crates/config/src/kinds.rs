//! Words of a file that name a kind of object, for code that must cover all of them.

use crate::keys::{self, Change};
use crate::setting::Key;
use crate::{read, sched};

/// Kinds of attachments: `tap`, `switch`, …
pub fn attachments() -> Vec<&'static str> {
    attach::words().collect()
}

/// Engines: `kvm`, `process`, …
pub fn engines() -> Vec<&'static str> {
    read::ENGINES.names()
}

/// Policies of `sched`: `fifo`, `shares`, …
pub fn policies() -> Vec<&'static str> {
    sched::policies()
}

/// Keys of a router about its CPUs and CPU time: `pin`, `guarantee`, …
pub fn cpu_keys() -> Vec<&'static str> {
    let is_of_others = |key: Key| matches!(key, Key::Restart | Key::Spin) || key.is_of_kernel();
    let is_of_cpus = |change: Change| matches!(change, Change::Free(key) if !is_of_others(key));
    let entries = keys::ROUTER.iter().filter(|entry| is_of_cpus(entry.change));
    let mut names: Vec<&str> = entries.filter_map(|entry| entry.name.split('.').next()).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn each_kind_of_attachment_is_read_as_itself() {
        for kind in attachments() {
            let attach = match kind {
                "null" => kind.to_owned(),
                "udp" => "udp:192.0.2.1:4789-198.51.100.1:4789".to_owned(),
                _ => format!("{kind}:a"),
            };
            let is_for_kernel = attach::Attach::read(&attach).is_ok_and(|attach| attach.is_for_kernel());
            let engine = if is_for_kernel { "engine = \"kernel\"\n" } else { "" };
            let text = format!(
                "[switch.a]\n[[router]]\nname = \"r\"\n{engine}[[router.nic]]\nname = \"n\"\nattach = \"{attach}\"\n"
            );
            let plan = parse(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
            let nic = &plan.routers[0].nics[0];
            assert_eq!((nic.attach.kind(), nic.attach.to_string()), (kind, attach));
        }
    }
}
