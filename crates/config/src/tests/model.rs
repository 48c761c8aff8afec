//! Device models of a NIC, and what each requires of its router.

use super::bad::{GOOD, errors};
use crate::{Engine, HostFacts, Itr, Nic, NicModel, TransmitMode, nic_model, parse, transmit_mode};

/// The valid file with other lines in place of `model = "virtio-net"`, line 15, in its first NIC.
fn nic(lines: &str) -> String {
    GOOD.replacen("model = \"virtio-net\"", lines, 1)
}

#[track_caller]
fn read(lines: &str) -> Nic {
    parse(&nic(lines), "f.toml").expect("a good file").routers[0].nics[0].clone()
}

#[test]
fn one_word_makes_it_an_e1000() {
    assert_eq!(read("").model, NicModel::VirtioNet);
    let nic = read("model = \"e1000\"");
    assert_eq!((nic.model, nic.mode, nic.itr), (NicModel::E1000, TransmitMode::Csb, Itr::Every(0)));
}

#[test]
fn ways_to_transmit() {
    for mode in TransmitMode::ALL {
        let nic = read(&format!("model = \"e1000\"\nmode = \"{}\"", mode.name()));
        assert_eq!((nic.mode, nic.combine), (mode, 0));
    }
    let combining = "model = \"e1000\"\nmode = \"send-combining\"\n";
    assert_eq!(read(&format!("{combining}combine = 32")).combine, 32);
    assert_eq!(read(combining).combine_above, 0);
    assert_eq!(read(&format!("{combining}combine_above = 20_000")).combine_above, 20_000);
    assert_eq!(
        errors(&nic("model = \"e1000\"\ncombine_above = 8")),
        "f.toml:16: router.nic.combine_above: only send combining has it; remove it, or write mode = \"send-combining\""
    );
    assert_eq!(
        errors(&nic(&format!("{combining}combine_above = 0"))),
        "f.toml:17: router.nic.combine_above: 0 is out of range; write 1 to 10000000"
    );
    assert_eq!(
        errors(&nic("model = \"e1000\"\nmode = \"fast\"")),
        "f.toml:16: router.nic.mode: \"fast\" is no way to transmit; ways: base, async, send-combining, csb, coalesced"
    );
    assert_eq!(
        errors(&nic("mode = \"csb\"")),
        "f.toml:15: router.nic.mode: only an e1000 has it; remove it, or write model = \"e1000\""
    );
    assert_eq!(
        errors(&nic("model = \"e1000\"\ncombine = 8")),
        "f.toml:16: router.nic.combine: only send combining has it; remove it, or write mode = \"send-combining\""
    );
    assert_eq!(
        errors(&nic(&format!("{combining}combine = 0"))),
        "f.toml:17: router.nic.combine: 0 is out of range; write 1 to 1024"
    );
    assert_eq!(
        errors(&nic(&format!("{combining}combine = 512")).replacen("ring = 1024", "ring = 256", 1)),
        "f.toml:17: router.nic.combine: 512 is more than the ring holds; write 1 to 256"
    );
}

#[test]
fn moderation_is_for_both_models() {
    for model in ["virtio-net", "e1000"] {
        let itr = |value: &str| read(&format!("model = \"{model}\"\nitr = {value}")).itr;
        assert_eq!(itr("0"), Itr::Every(0));
        assert_eq!(itr("100"), Itr::Every(100));
        assert_eq!(itr("65535"), Itr::Every(65_535));
        assert_eq!(itr("\"adaptive\""), Itr::Adaptive);
    }
    let wrong = |value: &str| errors(&nic(&format!("itr = {value}")));
    assert_eq!(wrong("65536"), "f.toml:15: router.nic.itr: 65536 is out of range; write 0 to 65535");
    assert_eq!(wrong("-1"), "f.toml:15: router.nic.itr: -1 is out of range; write 0 to 65535");
    assert_eq!(
        wrong("\"25us\""),
        "f.toml:15: router.nic.itr: \"25us\" is out of range; write 0 to 65535, or \"adaptive\""
    );
    assert_eq!(
        wrong("2.5"),
        "f.toml:15: router.nic.itr: a float where a whole number from 0 to 65535, or \"adaptive\", is expected"
    );
}

#[test]
fn itr_is_shown_as_it_is_written() {
    assert_eq!(
        [Itr::Every(0), Itr::Every(100), Itr::Adaptive].map(|itr| itr.to_string()),
        ["0", "100", "adaptive"]
    );
    for itr in [Itr::Every(0), Itr::Every(65_535), Itr::Adaptive] {
        assert_eq!(itr.to_string().parse(), Ok(itr));
    }
    let wrong = "65536".parse::<Itr>().expect_err("too much");
    assert_eq!(wrong.to_string(), "\"65536\" is out of range; write 0 to 65535, or \"adaptive\"");
}

#[test]
fn models_and_modes_by_name() {
    for model in [NicModel::VirtioNet, NicModel::E1000] {
        assert_eq!(nic_model(model.name()), Ok(model));
    }
    for mode in TransmitMode::ALL {
        assert_eq!(transmit_mode(mode.name()), Ok(mode));
    }
    let wrong = nic_model("ne2000").expect_err("another one");
    assert_eq!(wrong.to_string(), "\"ne2000\" is no NIC model; models: virtio-net, e1000");
    assert!(transmit_mode("BASE").is_err());
}

#[test]
fn an_e1000_has_one_queue_pair_and_a_vcpu_for_its_interrupts() {
    let e1000 = nic("model = \"e1000\"");
    let two = e1000.replacen("vcpus = 1", "vcpus = 2", 1).replacen("queues = 1\n", "", 1);
    let plan = parse(&two, "f.toml").expect("a good file");
    let router = &plan.routers[0];
    assert_eq!((router.vcpus, router.nics[0].queues, router.nics[1].queues), (2, 1, 1));
    let per_queue = parse(&two.replacen("\"shared\"", "\"per-queue\"", 1), "f.toml").expect("a good file");
    let names: Vec<String> = per_queue.routers[0].threads().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["edge/vcpu0", "edge/vcpu1", "edge/q0"], "a thread for each pair that there is");
    assert_eq!(per_queue.routers[0].vhost_threads(), 1);
    assert_eq!(
        errors(&two.replacen("vcpus = 2", "vcpus = 3", 1).replacen("32M", "64M", 1)),
        "f.toml:7: router.vcpus: 3 vCPUs are too many for a router with an e1000, whose second vCPU takes its \
         interrupts; write 1 or 2"
    );
    assert_eq!(
        errors(&e1000.replacen("queues = 1", "queues = 2", 1)),
        "f.toml:19: router.nic.queues: an e1000 has one queue pair; write queues = 1"
    );
    assert_eq!(
        errors(&two.replacen("name = \"lan\"", "name = \"lan\"\nqueues = 2", 1)),
        "f.toml:24: router.nic.queues: a router with an e1000 has one queue pair in each NIC; write queues = 1"
    );
}

#[test]
fn an_e1000_is_filled_by_one_thread() {
    let on_switch = GOOD.replacen("name = \"lan\"", "name = \"lan\"\nmodel = \"e1000\"", 1);
    assert!(parse(&on_switch, "f.toml").is_ok());
    assert_eq!(
        errors(&on_switch.replacen("\"queued\"", "\"direct\"", 1)),
        "f.toml:28: router.nic.deliver: an e1000 gives its buffers back in order, so that one thread fills them; \
         write deliver = \"queued\""
    );
}

#[test]
fn kvm_collects_register_writes() {
    let coalesced = nic("model = \"e1000\"\nmode = \"coalesced\"");
    let process = coalesced.replacen("engine = \"kvm\"", "engine = \"process\"", 1);
    assert_eq!(
        errors(&process),
        "f.toml:16: router.nic.mode: KVM collects the writes, and a process has none; write mode = \"async\", or \
         engine = \"kvm\""
    );
    let open = coalesced.replacen("engine = \"kvm\"", "", 1);
    let mut plan = parse(&open, "f.toml").expect("a good file");
    let host = HostFacts { cpus: (0..8).collect(), ..HostFacts::default() };
    assert_eq!(plan.check_host(&host).to_string(), "");
    let without = HostFacts { no_kvm: Some("/dev/kvm is not there".to_owned()), ..host };
    let expected = "f.toml:16: router.nic.mode: /dev/kvm is not there, and KVM collects the writes; write mode = \"async\"";
    assert_eq!(plan.check_host(&without).to_string(), expected);
    let _ = plan.choose_engines(&without);
    assert_eq!(plan.routers[0].engine, Some(Engine::Process));
    assert_eq!(plan.check_host(&without).to_string(), expected, "whoever asks later hears the same");
}

#[test]
fn jumbo_frames_cost_memory_at_every_attachment() {
    let file = |nic: &str| format!("[[router]]\nname = 'a'\n[[router.nic]]\nname = 'x'\n{nic}\n");
    let memory = |nic: &str| {
        let router = parse(&file(nic), "f.toml").expect("a good file").routers.remove(0);
        (router.has_jumbo(), router.memory >> 20)
    };
    assert_eq!(memory("attach = 'null'\nmtu = 2022"), (false, 32));
    let four = |mtu: u32| {
        let nic = |n: u32| {
            format!("[[router.nic]]\nname = 'n{n}'\nattach = 'null'\nmtu = {mtu}\nmodel = 'e1000'\n")
        };
        let nics: String = (0..4).map(nic).collect();
        let text = format!("[[router]]\nname = 'a'\n{nics}");
        let router = parse(&text, "f.toml").expect("a good file").routers.remove(0);
        (router.has_jumbo(), router.memory >> 20)
    };
    assert_eq!(four(2022), (false, 32));
    let (is_jumbo, jumbo) = four(9216);
    assert!(is_jumbo && jumbo > 64, "buffers of four NICs take {jumbo} MiB");
    let small =
        errors(&file("attach = 'null'\nmtu = 9000").replace("name = 'a'", "name = 'a'\nmemory = \"16M\""));
    assert!(small.contains("with their buffers for jumbo frames; write memory = "), "{small}");
    assert!(memory("attach = 'xdp:eth0'\nmtu = 9216").0, "AF_XDP has them as well");
}
