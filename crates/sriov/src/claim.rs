//! Claims on virtual functions. Taking and releasing a claim may take seconds, because a driver may have to be probed: call these
//! on a thread that may block.

use std::thread::sleep;
use std::time::{Duration, Instant};

use netlink::{Function as Seen, FunctionSetting};

use crate::assign::local_interface;
use crate::plan::{FormerSettings, FunctionSettings, Step, steps};
use crate::{Address, Assigned, Error, Function, Location, Port, PortSettings, Sysfs};

/// Time limits for a driver to create its interface, and for the host (udev) to rename it.
const APPEARING: Duration = Duration::from_secs(5);
const NAMING: Duration = Duration::from_secs(1);
/// Interval between two checks for the interface.
const LOOK: Duration = Duration::from_millis(5);

/// A virtual function with the settings that a NIC requests. Dropping the claim restores the former settings.
#[derive(Debug)]
pub struct Claim {
    sysfs: Sysfs,
    kernel: Box<dyn PortSettings>,
    former: FormerSettings,
    interface: String,
    /// True if dropping the claim restores the former settings.
    restores_on_drop: bool,
}

impl Claim {
    /// Applies the requested settings to a function whose interface is in our namespace. `kernel` reaches the port's interface: a
    /// socket in its namespace does. `journal` receives the former settings before any is changed, so that the cleaner can restore
    /// them.
    ///
    /// # Errors
    /// One line: the function's interface is not here, or its driver refuses. The former settings are in force then.
    pub fn take(
        sysfs: &Sysfs,
        kernel: Box<dyn PortSettings>,
        assigned: &Assigned,
        wanted: &FunctionSettings,
        journal: &mut dyn FnMut(&FormerSettings),
    ) -> Result<Self, Error> {
        wanted.check()?;
        let port = port(sysfs, assigned.port)?;
        let gone = || Error::NoFunction { port: port.label(), number: assigned.number, now: port.count() };
        let function = port.function(assigned.number).ok_or_else(gone)?;
        let interface = local_interface(&port, function)?.to_owned();
        let seen = seen(&*kernel, &port, assigned.number)?;
        let settings = FunctionSettings::as_seen(&seen).touched_by(wanted);
        let former = FormerSettings {
            port: port.address,
            number: assigned.number,
            address: assigned.address,
            interface: interface.clone(),
            settings,
        };
        journal(&former);
        let mut claim = Self { sysfs: sysfs.clone(), kernel, former, interface, restores_on_drop: true };
        // On an error the claim is dropped, which restores the former settings.
        carry_out(&claim.sysfs, &*claim.kernel, &port, (&claim.former, &steps(&seen, wanted)))?;
        claim.interface = claim.find()?;
        Ok(claim)
    }

    /// Applies the requested settings again to a function whose interface is in our namespace: it had vanished and came back as a new
    /// one, which has none of them, and perhaps another name. Does nothing if it is in a router, or has vanished. `inside`: the name that
    /// it has in its router; under that it is here because somebody has pulled it out, and is no new one.
    ///
    /// # Errors
    /// One line: its driver refuses.
    pub fn renew(&mut self, wanted: &FunctionSettings, inside: &str) -> Result<(), Error> {
        let FormerSettings { port, number, address, .. } = self.former;
        let Some(port) = self.sysfs.read(port).filter(|port| port.interface.is_some()) else { return Ok(()) };
        let function = port.function(number).filter(|function| function.address == address);
        let Some(Location::Here(name)) = function.map(Function::place) else { return Ok(()) };
        let is_known = [self.interface.as_str(), inside].contains(&name);
        let todo = steps(&seen(&*self.kernel, &port, number)?, wanted);
        if todo.is_empty() && is_known {
            return Ok(());
        }
        carry_out(&self.sysfs, &*self.kernel, &port, (&self.former, &todo))?;
        // A driver that was bound again creates the interface anew.
        let found = self.find()?;
        if found != inside {
            self.interface = found;
        }
        Ok(())
    }

    /// Returns the function's interface, in the namespace where it was claimed.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns the former settings.
    pub fn former(&self) -> &FormerSettings {
        &self.former
    }

    /// Restores the former settings. The caller has moved the function's interface back before.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn restore(mut self) -> Result<(), Error> {
        self.restores_on_drop = false;
        restore(&self.sysfs, &*self.kernel, &self.former)
    }

    /// Ends the claim and leaves the settings as they are.
    pub fn detach(mut self) -> FormerSettings {
        self.restores_on_drop = false;
        self.former.clone()
    }

    /// Present name of the function's interface: a driver that was rebound creates a new interface, which the host may rename.
    fn find(&self) -> Result<String, Error> {
        let FormerSettings { address, interface, .. } = &self.former;
        let found = await_name(&self.sysfs, *address, interface);
        found.ok_or_else(|| Error::NotHere {
            port: self.former.port.to_string(),
            number: self.former.number,
            address: *address,
            why: format!(
                "has not created an interface within {} s after its driver was bound; see `dmesg`",
                APPEARING.as_secs()
            ),
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.restores_on_drop {
            // A failure cannot be reported here; the cleaner has the former settings as well.
            let _ = restore(&self.sysfs, &*self.kernel, &self.former);
        }
    }
}

/// Restores the former settings of a function. Does nothing for a function that has vanished, alone or with its port.
///
/// # Errors
/// The driver refuses.
pub fn restore(sysfs: &Sysfs, kernel: &dyn PortSettings, former: &FormerSettings) -> Result<(), Error> {
    let Some(port) = sysfs.read(former.port) else { return Ok(()) };
    let is_it = port.function(former.number).is_some_and(|function| function.address == former.address);
    if !is_it || port.interface.is_none() {
        return Ok(());
    }
    let seen = seen(kernel, &port, former.number)?;
    carry_out(sysfs, kernel, &port, (former, &steps(&seen, &former.settings)))
}

fn port(sysfs: &Sysfs, address: Address) -> Result<Port, Error> {
    sysfs.read(address).ok_or_else(|| Error::NoSriov { interface: address.to_string() })
}

/// Reads the settings of a function from its port.
fn seen(kernel: &dyn PortSettings, port: &Port, number: u32) -> Result<Seen, Error> {
    let name = port.label();
    let asking = |answer| Error::system(format!("reading the virtual functions of `{name}`"), answer);
    let all = kernel.functions(&name).map_err(asking)?;
    let none = || Error::NoFunction { port: port.label(), number, now: port.count() };
    all.into_iter().find(|function| function.number == number).ok_or_else(none)
}

fn carry_out(
    sysfs: &Sysfs,
    kernel: &dyn PortSettings,
    port: &Port,
    (former, steps): (&FormerSettings, &[Step]),
) -> Result<(), Error> {
    let name = port.label();
    for step in steps {
        let done = match step {
            Step::Set(setting) => kernel.set_function(&name, former.number, *setting),
            Step::Rebind => sysfs.rebind(former.address),
        };
        let FormerSettings { number, .. } = former;
        done.map_err(|e| {
            Error::system(format!("{} of virtual function {number} of `{name}`", what(*step)), e)
        })?;
    }
    Ok(())
}

fn what(step: Step) -> &'static str {
    match step {
        Step::Set(FunctionSetting::Mac(_)) => "setting the address",
        Step::Set(FunctionSetting::Vlan(_)) => "setting the VLAN",
        Step::Set(FunctionSetting::SpoofCheck(_)) => "setting the spoof check",
        Step::Set(FunctionSetting::Trusted(_)) => "setting the trust",
        Step::Rebind => "rebinding the driver",
    }
}

/// Waits for the interface of a function, and for a moment longer until it has its former name.
fn await_name(sysfs: &Sysfs, address: Address, former: &str) -> Option<String> {
    let found = sysfs.await_interface(address, APPEARING)?;
    if found == former {
        return Some(found);
    }
    let end = Instant::now() + NAMING;
    while Instant::now() < end {
        match sysfs.interface(address) {
            Some(now) if now == former => return Some(now),
            _ => sleep(LOOK),
        }
    }
    sysfs.interface(address)
}
