//! Objective: an unmodified kernel runs on our devices with its own drivers: `engine = "linux"`. Expected: frames pass both
//! ways by virtio_net and e1000, with any offloads and MTU; drivers are unbound and rebound; a pulled cable is noticed; two
//! guests communicate on a switch; power-off, reset and panic are distinguished.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use inbox::QUICKLY;
use support::{Namespace, Stage, run};

/// Timeout of a kernel's boot, generous for nested emulation on a busy host.
const UP: Duration = Duration::from_secs(120);
/// Timeout of everything else.
const PATIENCE: Duration = Duration::from_secs(120);
/// Ports of the guest's shell, and of a service that sends back what it receives.
const SHELL: u16 = 7;
const ECHO: u16 = 9;
/// Octets of a stream: several times the most that TCP leaves to the card at once.
const STREAM: usize = 200_000;

/// NIC of the guest under test, and the host at its other end.
struct Nic {
    /// Name in the file and in the guest.
    name: &'static str,
    link: &'static str,
    driver: &'static str,
    /// Address on the guest's bus, and driver there.
    slot: &'static str,
    pci_driver: &'static str,
    guest: Ipv4Addr,
    host: Namespace,
}

impl Nic {
    /// Runs a line in the guest's shell, through this NIC; returns its output.
    fn shell(&self, line: &str) -> Result<String> {
        let address = SocketAddr::from((self.guest, SHELL));
        let ask = || -> Result<String> {
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(20))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(format!("{{ {line} ; }} 2>&1; echo status=$?\n").as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
            let mut said = String::new();
            stream.read_to_string(&mut said)?;
            Ok(said)
        };
        self.host.inside(ask)?
    }

    /// Runs a line in the guest's shell that must succeed; returns its output.
    fn done(&self, line: &str) -> Result<String> {
        let said = self.shell(line).with_context(|| format!("{}: {line}", self.name))?;
        ensure!(said.ends_with("status=0\n"), "{}: {line}: {said}", self.name);
        Ok(said)
    }

    /// Waits until a line's output contains this.
    fn until(&self, line: &str, wanted: &str) -> Result<()> {
        self.until_within(line, wanted, PATIENCE)
    }

    fn until_within(&self, line: &str, wanted: &str, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        loop {
            let said = self.shell(line);
            if said.as_ref().is_ok_and(|said| said.contains(wanted)) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("{}: {line}: no {wanted:?} but {said:?}", self.name);
            }
            sleep(Duration::from_millis(300));
        }
    }

    fn ping(&self, octets: u32) -> Result<()> {
        let options = ["-s", &octets.to_string(), &self.guest.to_string()];
        support::ping(self.host.command("busybox"), 3, &options).map(drop).context(self.name)
    }

    /// Returns true if the guest answers through this NIC: quickly if it should, and after three attempts if not.
    fn answers(&self) -> Result<bool> {
        let mut ping = self.host.command("busybox");
        ping.args(["ping", "-c", "3", "-W", "3", &self.guest.to_string()]);
        Ok(run(&mut ping, PATIENCE)?.status.success())
    }

    /// Runs TCP from the host to the guest and back, as users measure it.
    fn iperf(&self) -> Result<()> {
        inbox::iperf(&self.host, &self.guest.to_string(), "500K", PATIENCE)
    }

    /// Sends a stream to the guest and reads it back; a quick test.
    fn stream(&self) -> Result<()> {
        let address = SocketAddr::from((self.guest, ECHO));
        let (sent, mut came) = (vec![0x5a; STREAM], Vec::new());
        let carry = || -> Result<()> {
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut write = stream.try_clone()?;
            std::thread::scope(|scope| {
                let writer =
                    scope.spawn(|| write.write_all(&sent).and_then(|()| write.shutdown(Shutdown::Write)));
                stream.read_to_end(&mut came)?;
                writer.join().map_err(|_| anyhow!("a writer panicked"))??;
                Ok(())
            })
        };
        self.host.inside(carry)?.with_context(|| format!("{}: a stream", self.name))?;
        ensure!(came == sent, "{}: {} octets came back", self.name, came.len());
        Ok(())
    }

    /// Tests what a user expects of a NIC.
    fn works(&self) -> Result<()> {
        self.ping(56)?;
        self.ping(1400)?;
        self.stream()
    }
}

fn file(vcpus: u32) -> String {
    let run = "ip+address+add+10.1.0.2/24+dev+eth0;ip+link+set+eth0+up;ip+address+add+10.2.0.2/24+dev+eth1;\
               ip+link+set+eth1+up;iperf3+-s+-D;nc+-ll+-p+9+-e+cat&nc+-ll+-p+7+-e+sh";
    format!(
        "[[router]]\nname = \"tux\"\nengine = \"linux\"\nkernel = \"{}\"\ninitrd = \"{}\"\n\
         append = \"{QUICKLY} panic=-1 run={run}\"\nconsole = \"console.log\"\nvcpus = {vcpus}\n\
         restart = \"never\"\n\
         [[router.nic]]\nname = \"virtio\"\nattach = \"tap:tapv\"\n\
         [[router.nic]]\nname = \"intel\"\nmodel = \"e1000\"\nattach = \"tap:tape\"\n",
        inbox::GUEST_KERNEL,
        inbox::GUEST_INITRD,
    )
}

#[test]
fn stock_drivers_work_on_both_models() {
    support::needs!(Root, Kvm, Tun, Program("iperf3"));
    if let Err(error) = with_guest(1, stock_drivers) {
        panic!("{error:#}");
    }
}

#[test]
fn two_cpus_of_a_guest_carry_traffic() {
    support::needs!(Root, Kvm, Tun, Program("iperf3"));
    let all = |nics: &[Nic; 2]| nics.iter().try_for_each(|nic| nic.works().and_then(|()| nic.iperf()));
    if let Err(error) = with_guest(2, all) {
        panic!("{error:#}");
    }
}

/// Starts a guest with both models and this many vCPUs, calls `act` with it, and powers it off.
fn with_guest(vcpus: u32, act: impl Fn(&[Nic; 2]) -> Result<()>) -> Result<()> {
    let mut stage = Stage::start_with(&inbox::ringroad(), &file(vcpus), &["--log", "text"])?;
    let nics = [
        Nic {
            name: "virtio",
            link: "eth0",
            driver: "virtio_net",
            slot: "0000:00:01.0",
            pci_driver: "virtio-pci",
            guest: Ipv4Addr::new(10, 1, 0, 2),
            host: stage.host("tapv", "10.1.0.1/24", "10.1.0.2")?,
        },
        Nic {
            name: "intel",
            link: "eth1",
            driver: "e1000",
            slot: "0000:00:02.0",
            pci_driver: "e1000",
            guest: Ipv4Addr::new(10, 2, 0, 2),
            host: stage.host("tape", "10.2.0.1/24", "10.2.0.2")?,
        },
    ];
    let console = stage.path("console.log");
    let said = || fs::read_to_string(&console).unwrap_or_default();
    let [virtio, _] = &nics;
    virtio.until_within("nproc", &format!("{vcpus}\nstatus=0"), UP).with_context(said)?;
    act(&nics).with_context(said)?;
    // Delayed, because a guest that powers off does not close its connections: the client would wait for its whole timeout.
    virtio.done("sh -c '(sleep 1;poweroff -f) </dev/null >/dev/null 2>&1 &'").with_context(said)?;
    wait_for(&mut stage, "turned itself off").with_context(said)?;
    let [virtio, intel] = nics.map(|nic| nic.host);
    stage.finish_troubled(vec![virtio, intel]).map(drop)
}

fn stock_drivers(nics: &[Nic; 2]) -> Result<()> {
    let [virtio, intel] = nics;
    nics.iter().try_for_each(drive)?;
    for (nic, other) in [(virtio, intel), (intel, virtio)] {
        pull_cable(nic, other)?;
        rebind(nic, other)?;
    }
    Ok(())
}

/// Tests traffic under various settings of `ethtool` and `ip`.
fn drive(nic: &Nic) -> Result<()> {
    let link = nic.link;
    ensure!(nic.done(&format!("ethtool -i {link}"))?.contains(&format!("driver: {}", nic.driver)));
    ensure!(nic.done(&format!("ethtool -k {link}"))?.contains("tx-checksumming: "));
    nic.works()?;
    nic.iperf()?;
    nic.done(&format!("ethtool -S {link}"))?;
    // Not every model supports everything: a feature that cannot be switched on stays off.
    for switch in ["off", "on"] {
        nic.shell(&format!("ethtool -K {link} tx {switch} tso {switch} gso {switch} gro {switch}"))?;
        nic.stream().with_context(|| format!("offloads {switch}"))?;
    }
    nic.done(&format!("ip link set {link} mtu 1400"))?;
    nic.until(&format!("ip link show {link}"), "mtu 1400")?;
    nic.ping(1372)?;
    nic.stream().context("mtu 1400")?;
    nic.done(&format!("ip link set {link} mtu 1500"))?;
    nic.until(&format!("ip link show {link}"), "mtu 1500")?;
    nic.ping(1472)
}

/// Pulls the cable and plugs it in again; the guest is queried through its other NIC.
fn pull_cable(nic: &Nic, other: &Nic) -> Result<()> {
    let carrier = format!("echo carrier $(cat /sys/class/net/{}/carrier)", nic.link);
    other.until(&carrier, "carrier 1")?;
    for (link, wanted) in [("down", "carrier 0"), ("up", "carrier 1")] {
        let mut set = Command::new(inbox::ringroad());
        set.args(["set", &format!("tux.{}", nic.name), &format!("link={link}")]);
        let done = run(&mut set, PATIENCE)?;
        ensure!(done.status.success(), "link={link}: {}", done.stderr);
        other.until(&carrier, wanted)?;
        ensure!(nic.answers()? == (link == "up"), "{}: link={link}", nic.name);
    }
    nic.ping(56)
}

/// Unbinds the driver from the device and rebinds it.
fn rebind(nic: &Nic, other: &Nic) -> Result<()> {
    let Nic { link, slot, pci_driver, guest, .. } = nic;
    let driver = format!("/sys/bus/pci/drivers/{pci_driver}");
    other.done(&format!("echo {slot} >{driver}/unbind"))?;
    ensure!(!other.shell(&format!("ls {driver}"))?.contains(slot));
    other.done(&format!("echo {slot} >{driver}/bind"))?;
    other.done(&format!("ip address add {guest}/24 dev {link}; ip link set {link} up"))?;
    nic.until("echo back", "back")?;
    nic.works().context("after the driver came back")
}

fn wait_for(stage: &mut Stage, words: &str) -> Result<()> {
    stage.run().wait_for_line(PATIENCE, |line| line.contains(words)).map(drop)
}

#[test]
fn two_cpus_are_up_and_each_is_interrupted() {
    support::needs!(Root, Kvm);
    let script = "nproc;cat /proc/interrupts;poweroff -f";
    let text = format!("[switch.lan]\n{}", guest("duo", "virtio-net", script));
    let text = text.replace("name = \"duo\"\n", "name = \"duo\"\nvcpus = 2\n");
    let mut stage = Stage::start_with(&inbox::ringroad(), &text, &["--log", "text"]).expect("it starts");
    let off = stage.run().wait_for_line(UP, |line| line.contains("turned itself off"));
    let said = fs::read_to_string(stage.path("duo.log")).unwrap_or_default();
    assert!(off.is_ok(), "{off:?}: {said}");
    assert!(said.lines().any(|line| line.trim_end() == "2"), "two CPUs: {said}");
    // Interrupts of each CPU's timer, and from the other CPU.
    for name in ["LOC:", "CAL:"] {
        let line = said.lines().find(|line| line.contains(name)).unwrap_or_default();
        let counts: Vec<u64> = line.split_whitespace().skip(1).take(2).flat_map(str::parse).collect();
        assert!(counts.len() == 2 && counts.iter().all(|count| *count > 0), "{line}: {said}");
    }
    // As many queue pairs as CPUs.
    assert!(said.contains("virtio0-input.1"), "{said}");
    stage.finish_troubled(Vec::new()).expect("nothing is left");
}

#[test]
fn a_kernel_that_unpacks_itself_is_entered() {
    support::needs!(Root, Kvm);
    let text = format!(
        "[switch.lan]\n[[router]]\nname = \"zip\"\nengine = \"linux\"\nkernel = \"{}\"\n\
         append = \"earlyprintk=serial,ttyS0 nokaslr\"\nconsole = \"zip.log\"\n\
         [[router.nic]]\nname = \"eth0\"\nattach = \"switch:lan\"\n",
        inbox::GUEST_PACKED_KERNEL
    );
    let stage = Stage::start_with(&inbox::ringroad(), &text, &["--log", "text"]).expect("it starts");
    let end = Instant::now() + UP;
    let said = || fs::read_to_string(stage.path("zip.log")).unwrap_or_default();
    // Message before it decompresses. Decompression takes longer than all other tests, which boot the uncompressed kernel.
    while !said().contains("KASLR disabled") {
        assert!(Instant::now() < end, "{}", said());
        sleep(Duration::from_millis(100));
    }
    stage.finish_troubled(Vec::new()).expect("nothing is left");
}

#[test]
fn two_guests_meet_on_a_switch_and_end() {
    support::needs!(Root, Kvm);
    if let Err(error) = two_guests() {
        panic!("{error:#}");
    }
}

fn guest(name: &str, model: &str, script: &str) -> String {
    format!(
        "[[router]]\nname = \"{name}\"\nengine = \"linux\"\nkernel = \"{}\"\ninitrd = \"{}\"\nmemory = \"192M\"\n\
         append = \"{} panic=-1 run={}\"\nconsole = \"{name}.log\"\nrestart = \"never\"\n\
         [[router.nic]]\nname = \"eth0\"\nmodel = \"{model}\"\nattach = \"switch:lan\"\n",
        inbox::GUEST_KERNEL,
        inbox::GUEST_INITRD,
        inbox::QUICKLY,
        script.replace(' ', "+"),
    )
}

fn two_guests() -> Result<()> {
    let up = |host| format!("ip address add 10.3.0.{host}/24 dev eth0;ip link set eth0 up");
    // A peer that is not up yet is tried again; the last message says that both directions are done.
    let client = "until iperf3 -c 10.3.0.2 -n 500K;do sleep 1;done;echo went-forth;\
                  until iperf3 -c 10.3.0.2 -n 500K -R;do sleep 1;done;echo came-back;\
                  until echo done|nc 10.3.0.2 9;do sleep 1;done;reboot -f";
    let server = "iperf3 -s -D;nc -l -p 9;echo served;echo c>/proc/sysrq-trigger";
    let text = format!(
        "[switch.lan]\n{}{}",
        guest("ann", "virtio-net", &format!("{};{client}", up(1))),
        guest("bob", "e1000", &format!("{};{server}", up(2)))
    );
    let mut stage = Stage::start_with(&inbox::ringroad(), &text, &["--log", "text"])?;
    let said = |stage: &Stage| {
        let read = |name: &str| fs::read_to_string(stage.path(name)).unwrap_or_default();
        format!("ann: {}\nbob: {}", read("ann.log"), read("bob.log"))
    };
    let ends = ["the guest reset itself", "the guest's kernel panicked: sysrq triggered crash"];
    for end in ends {
        let found = stage.run().wait_for_line(UP, |line| line.contains(end)).map(drop);
        found.with_context(|| said(&stage))?;
    }
    let consoles = said(&stage);
    for words in ["went-forth", "came-back", "served"] {
        ensure!(consoles.lines().any(|line| line.trim_end() == words), "no {words} in {consoles}");
    }
    stage.finish_troubled(Vec::new()).map(drop)
}
