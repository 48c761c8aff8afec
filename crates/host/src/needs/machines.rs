//! Requirements of the routers' machines: engines, isolation in processes, and vhost-net.

use std::path::Path;

use config::{Container, Engine, HostFacts, Linux, Plan, Router, VhostThreads};
use rustix::process::geteuid;

use crate::{Finding, State, control_plane, references};

/// A finding for each requirement of a router beyond virtual machines.
pub(super) fn findings(plan: &Plan, facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if plan.routers.iter().any(|router| router.engine == Some(Engine::Process)) {
        findings.push(namespaces());
    }
    if plan.routers.iter().any(|router| router.vhost == VhostThreads::Kernel) {
        findings.push(vhost_net());
    }
    for router in &plan.routers {
        findings.extend(router.isolate.then(|| apart(router, facts)));
        findings.extend(router.linux.as_ref().map(|linux| stock(router, linux, facts)));
        findings.extend(router.container.as_ref().map(|container| contained(router, container)));
    }
    findings.extend(plan.controlled().map(|(router, control)| control_plane::finding(router, control)));
    findings
}

/// User namespaces, which a router that is a process needs.
fn namespaces() -> Finding {
    let name = "user namespaces";
    let is_zero = |path: &str| crate::read(path).is_some_and(|text| text == "0");
    let lacks = if !Path::new("/proc/self/ns/user").exists() {
        Some("this kernel has none (CONFIG_USER_NS): a router cannot be a process")
    } else if is_zero("/proc/sys/user/max_user_namespaces") {
        Some("none may be made: sysctl user.max_user_namespaces=10000")
    } else if is_zero("/proc/sys/kernel/unprivileged_userns_clone") && !geteuid().is_root() {
        Some("only root may make them: sysctl kernel.unprivileged_userns_clone=1")
    } else {
        None
    };
    match lacks {
        Some(lacks) => Finding::new(State::No, name, "engine = \"process\"", lacks),
        None => {
            Finding::new(State::Ok, name, "engine = \"process\"", "routers that are processes have their own")
        }
    }
}

/// vhost-net, which serves the NICs of a router with `vhost = "kernel"`.
fn vhost_net() -> Finding {
    let (path, what) = ("/dev/vhost-net", "vhost = \"kernel\"");
    match references::vhost_net() {
        Ok(()) => Finding::new(State::Ok, path, what, "the kernel serves the NICs by threads of its own"),
        Err(lacks) => Finding::new(State::No, path, what, lacks),
    }
}

/// Isolation of a router in a process of its own.
fn apart(router: &Router, facts: &HostFacts) -> Finding {
    let (state, meaning) = match &facts.no_kvm {
        None => {
            (State::Ok, "its machine gets a process of its own; its NICs are served by vhost-user".to_owned())
        }
        Some(reason) => (
            State::Note,
            format!("no machine to put apart ({reason}): the router is a process of its own in any case"),
        ),
    };
    Finding::new(state, router.name.clone(), "isolate = \"process\"", meaning)
}

/// Requirements of a container: LXC, and its root directory.
fn contained(router: &Router, container: &Container) -> Finding {
    let (state, meaning) = match references::contained(container).into_iter().next() {
        Some((_, lacks)) => (State::No, lacks),
        None => match &container.rootfs {
            Some(root) => {
                (State::Ok, format!("LXC starts {} in {}", container.init.join(" "), root.display()))
            }
            None => {
                (State::Ok, "LXC starts a container that sees the host's programs, and runs none".to_owned())
            }
        },
    };
    Finding::new(state, router.name.clone(), "engine = \"lxc\"", meaning)
}

/// Files and facts needed by a Linux guest.
fn stock(router: &Router, linux: &Linux, facts: &HostFacts) -> Finding {
    let unread = references::images(linux).into_iter().next().map(|(key, what)| format!("{key}: {what}"));
    let (state, meaning) = match unread.or_else(|| facts.no_kvm.as_ref().or(facts.no_linux.as_ref()).cloned())
    {
        Some(lacks) => (State::No, lacks),
        None => (State::Ok, format!("boots {}", linux.kernel.display())),
    };
    Finding::new(state, router.name.clone(), "engine = \"linux\"", meaning)
}
