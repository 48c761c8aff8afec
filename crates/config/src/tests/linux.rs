//! Guests that do not run our firmware.

use std::path::PathBuf;

use crate::{Engine, HostFacts, Linux, Plan, TransmitMode, parse};

const NIC: &str = "\n[[router.nic]]\nname = \"eth0\"\nattach = \"null\"\n";

fn file(keys: &str, nic: &str) -> String {
    format!("[[router]]\nname = \"tux\"\nengine = \"linux\"\n{keys}{NIC}{nic}")
}

fn good(keys: &str, nic: &str) -> Plan {
    parse(&file(keys, nic), "f.toml").expect("a good file")
}

fn faults(keys: &str, nic: &str) -> String {
    parse(&file(keys, nic), "f.toml").expect_err("a bad file").to_string()
}

#[test]
fn a_kernel_is_all_that_it_needs() {
    let router = &good("kernel = \"vmlinuz\"\n", "").routers[0];
    let linux = Linux { kernel: PathBuf::from("vmlinuz"), ..Linux::default() };
    assert_eq!((router.engine, router.linux.as_ref()), (Some(Engine::Linux), Some(&linux)));
    assert_eq!(router.memory, 256 << 20);
}

#[test]
fn it_can_have_more() {
    let keys =
        "kernel = \"k\"\ninitrd = \"i\"\nappend = \"quiet\"\nconsole = \"c\"\nvcpus = 4\nmemory = \"3G\"\n";
    let router = &good(keys, "model = \"e1000\"\n").routers[0];
    let linux = router.linux.as_ref().expect("a Linux guest");
    assert_eq!((linux.initrd.as_deref(), linux.append.as_str()), (Some("i".as_ref()), "quiet"));
    assert_eq!((linux.console.as_deref(), router.vcpus), (Some("c".as_ref()), 4));
    assert_eq!(router.nics[0].mode, TransmitMode::Async, "a driver that knows no status block");
}

#[test]
fn without_a_kernel_there_is_no_guest() {
    assert_eq!(faults("", ""), "f.toml:1: router.kernel: missing; write e.g. kernel = \"/boot/vmlinuz\"");
    assert!(faults("kernel = \"\"\n", "").contains("router.kernel: \"\" names no file"));
    assert!(faults("kernel = \"k\"\nappend = \"a\\nb\"\n", "").contains("router.append: "));
}

#[test]
fn a_guest_whose_packets_are_not_counted_has_no_guarantee() {
    let what = "a Linux guest does not report what it forwards, so no rate can be guaranteed; remove it, or write another engine";
    let refused = faults("kernel = \"k\"\nguarantee = \"1kpps\"\n", "");
    assert_eq!(refused, format!("f.toml:5: router.guarantee: {what}"));
    let plan = good("kernel = \"k\"\nlimit = \"1kpps\"\n", "");
    let refused = plan.with("tux", "guarantee", "1kpps").expect_err("it is not counted").to_string();
    assert_eq!(refused, format!("router tux: guarantee: {what}"));
}

#[test]
fn what_a_firmware_is_told_it_is_not() {
    let kernel = "kernel = \"k\"\n";
    assert!(
        faults(&format!("{kernel}role = \"echo\"\n"), "").contains("f.toml:5: router.role: a Linux guest")
    );
    assert!(faults(kernel, "address = [\"192.0.2.1/24\"]\n").contains("router.nic.address: a Linux guest"));
    assert!(faults(kernel, "model = \"e1000\"\nmode = \"csb\"\n").contains("\"csb\" is for our own driver"));
    for memory in ["32M", "3074M"] {
        let fault = faults(&format!("{kernel}memory = \"{memory}\"\n"), "");
        assert!(fault.contains("write \"64M\" to \"3G\""), "{fault}");
    }
}

#[test]
fn it_has_fewer_nics_and_pins_than_a_firmware() {
    let nic = |n: usize| format!("[[router.nic]]\nname = \"n{n}\"\nattach = \"null\"\n");
    let nics = |count: usize| (1..count).map(nic).collect::<String>();
    let kernel = "kernel = \"k\"\n";
    assert_eq!(good(kernel, &nics(31)).routers[0].nics.len(), 31);
    let fault = faults(kernel, &nics(32));
    assert!(
        fault.ends_with("a Linux guest has at most 31 NICs, because its host bridge takes a slot"),
        "{fault}"
    );
    let old = |count: usize| format!("{}model = \"e1000\"\n", nics(count));
    assert_eq!(good(kernel, &old(8)).routers[0].nics.len(), 8);
    let fault = faults(kernel, &old(9));
    assert!(fault.contains("router.nic.model: an e1000 interrupts by a pin"), "{fault}");
}

#[test]
fn its_keys_are_its_own() {
    let text = format!("[[router]]\nname = \"r\"\nkernel = \"k\"\n{NIC}address = [\"192.0.2.1/24\"]\n");
    let fault = parse(&text, "f.toml").expect_err("a bad file").to_string();
    assert_eq!(
        fault,
        "f.toml:3: router.kernel: only a Linux guest has it; remove it, or write engine = \"linux\""
    );
}

#[test]
fn where_ring_0_is_emulated_it_does_not_run() {
    let plan = good("kernel = \"k\"\n", "");
    let facts = |no_kvm: Option<&str>, no_linux: Option<&str>| HostFacts {
        no_kvm: no_kvm.map(str::to_owned),
        no_linux: no_linux.map(str::to_owned),
        ..HostFacts::default()
    };
    let told = |host| plan.check_host(&host).to_string();
    assert_eq!(told(facts(None, Some("too slow"))), "f.toml:3: router.engine: too slow");
    assert_eq!(told(facts(Some("no KVM"), None)), "f.toml:3: router.engine: no KVM");
    assert_eq!(told(facts(None, None)), "");
}
