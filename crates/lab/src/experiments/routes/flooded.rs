//! `bfd-flood`: two routers with OSPF and BFD (3 x 50 ms) between them, while their outer NICs, and by what they forward their inner ones
//! as well, are flooded as fast as the TAPs take it. The figure is the number of sessions of BFD that went down meanwhile, of both
//! routers; beside it stand the packets of BFD that were heard a second, and the frames that each NIC has seen.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::traffic::load;
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::rig::router_run::ControlledRun;

/// Timeout for the protocols to converge.
const PATIENCE: Duration = Duration::from_secs(120);
/// Shortest flood.
const SHORTEST: Duration = Duration::from_secs(30);
/// The routers: last letter of the name, number, the outer NIC's address, and the host behind it.
const SIDES: [(char, u8, &str, [u8; 4]); 2] =
    [('w', 1, "192.0.2.1/24", [192, 0, 2, 2]), ('e', 2, "198.51.100.1/24", [198, 51, 100, 2])];

/// Returns the only case.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    options.cpu(1)?;
    let options = options.clone();
    let name = format!("{}/3x50ms", crate::device::engine(&options).name());
    let slice = move |length: Duration| slice(length.max(SHORTEST), &options);
    Ok(vec![Experiment::unbuilt(("bfd-flood", "sessions"), name, slice).whole().into()])
}

fn slice(length: Duration, options: &Options) -> Result<Sample> {
    let mut run = ControlledRun::open(|folder, name| file(folder, name, options))?;
    let routers = SIDES.map(|(letter, ..)| format!("{}{letter}", run.id()));
    run.wait("OSPF and BFD", PATIENCE, |run| {
        // Of each protocol one neighbour.
        let is_up = |name: &String| run.adjacencies(name).iter().filter(|one| one.up).count() == 2;
        Ok(routers.iter().all(is_up))
    })?;
    let before = run.counters()?;
    let mut floods = Vec::new();
    for (own, (letter, ..)) in SIDES.iter().enumerate() {
        let mac = run.mac(&routers[own], "out")?;
        let (.., to) = SIDES[1 - own];
        let tap = format!("lab-{letter}");
        floods.push(load(&run, (tap.as_str(), mac), &[to.into()])?);
    }
    let start = Instant::now();
    sleep(length);
    let (after, seconds) = (run.counters()?, start.elapsed().as_secs_f64());
    drop(floods);
    run.close()?;
    let more = |name: &str| -> u64 {
        let of = |router: &String| {
            let name = format!("{router}.{name}");
            let count = |counters: &std::collections::BTreeMap<String, u64>| counters.get(&name).copied();
            count(&after).unwrap_or(0).saturating_sub(count(&before).unwrap_or(0))
        };
        routers.iter().map(of).sum()
    };
    let figures = [
        ("bfd_heard_a_second", more("bfd.taken") as f64 / seconds),
        ("outer_kpps", more("out.sorted.frames") as f64 / seconds * 1e-3),
        ("inner_kpps", more("core.sorted.frames") as f64 / seconds * 1e-3),
        ("expired", more("bfd.expired") as f64),
        ("seconds", seconds),
    ];
    Ok(Sample { value: more("bfd.down") as f64, more: figures.into(), ..Sample::default() })
}

fn file(folder: &Path, name: &str, options: &Options) -> Result<String> {
    let engine = crate::device::engine(options).name();
    let mut text = format!("[switch.{name}]\n");
    for (letter, number, address, host) in SIDES {
        let frr = folder.join(format!("{letter}.conf"));
        fs::write(&frr, configuration(number)).with_context(|| format!("cannot write {}", frr.display()))?;
        let host = std::net::Ipv4Addr::from(host);
        text += &format!(
            "[[router]]\nname = \"{name}{letter}\"\nengine = \"{engine}\"\ncontrol = {{ frr = \"{}\" }}\n\
             [[router.nic]]\nname = \"out\"\nattach = \"tap:lab-{letter}\"\naddress = \"{address}\"\n\
             [[router.nic]]\nname = \"core\"\nattach = \"switch:{name}\"\naddress = \"10.0.12.{number}/30\"\n\
             [[router.neighbour]]\naddress = \"{host}\"\nmac = \"02:00:00:00:09:09\"\n",
            frr.display()
        );
    }
    Ok(text)
}

fn configuration(number: u8) -> String {
    format!(
        "bfd\n profile fast\n  detect-multiplier 3\n  receive-interval 50\n  transmit-interval 50\n exit\nexit\n\
         interface core\n ip ospf area 0\n ip ospf network point-to-point\n ip ospf hello-interval 1\n \
         ip ospf dead-interval 10\n ip ospf bfd\n ip ospf bfd profile fast\nexit\n\
         interface out\n ip ospf area 0\n ip ospf passive\nexit\n\
         router ospf\n ospf router-id 10.255.0.{number}\nexit\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_both_routers_is_right() {
        let folder = crate::rig::router_run::Folder::new().expect("a folder");
        let text = file(&folder.path, "lab", &Options::default()).expect("a file");
        let plan = config::parse(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let names: Vec<&str> = plan.routers.iter().map(|router| router.name.as_str()).collect();
        assert_eq!(names, ["labw", "labe"]);
        for number in [1, 2] {
            let content = frr::Content::read(&configuration(number)).expect("good");
            let daemons: Vec<frr::Daemon> = content.daemons().collect();
            assert!(daemons.contains(&frr::Daemon::Bfd) && daemons.contains(&frr::Daemon::Ospf));
        }
    }
}
