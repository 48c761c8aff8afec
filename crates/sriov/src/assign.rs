//! Assignment of virtual functions to NICs of routers.

use std::collections::BTreeMap;

use crate::{Address, Error, Function, Location, Port};

/// A NIC's request for a virtual function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionRequest {
    /// The router and its NIC, as in `edge.wan`.
    pub nic: String,
    /// The interface that the configuration names: of a port, or of a function.
    pub interface: String,
    /// Number of the function at the port; `None`: any free function.
    pub function: Option<u32>,
    /// The function that the NIC holds already, while it runs.
    pub held: Option<Address>,
}

/// A virtual function that has been assigned to a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The router and its NIC, as in `edge.wan`.
    pub nic: String,
    /// PCI address of the port.
    pub port: Address,
    /// Number of the function at the port.
    pub number: u32,
    /// PCI address of the function.
    pub address: Address,
}

/// Assigns a function to each wish. A NIC keeps the function that it holds; a wish with a number gets that function; every other
/// wish gets the free function with the smallest number. Wishes for a particular function are served first, so an assignment is
/// found whenever there is one.
///
/// # Errors
/// One line: there is no such port or function, two wishes name one function, no function is left, or its interface is not here.
pub fn assign(ports: &[Port], wishes: &[FunctionRequest]) -> Result<Vec<Assigned>, Error> {
    let mut taken = BTreeMap::new();
    let mut found: Vec<Option<(&Port, &Function)>> = Vec::new();
    for wish in wishes {
        let fixed = fixed(ports, wish)?;
        if let Some((port, function)) = fixed {
            take(&mut taken, wish, port, function)?;
        }
        found.push(fixed);
    }
    for (wish, found) in wishes.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
        let port = port_of(ports, wish)?;
        let function = free(port, &taken, wish)?;
        take(&mut taken, wish, port, function)?;
        *found = Some((port, function));
    }
    let assigned = wishes.iter().zip(found).filter_map(|(wish, found)| {
        let (port, function) = found?;
        let (number, address) = (function.number, function.address);
        Some(Assigned { nic: wish.nic.clone(), port: port.address, number, address })
    });
    Ok(assigned.collect())
}

/// The function that a wish demands: the one that it holds, the one whose interface it names, or the one with its number. `None`:
/// any function of the port will do.
fn fixed<'p>(ports: &'p [Port], wish: &FunctionRequest) -> Result<Option<(&'p Port, &'p Function)>, Error> {
    let mut all = ports.iter().flat_map(|port| port.functions.iter().map(move |function| (port, function)));
    let is = |function: &Function| match wish.held {
        Some(held) => function.address == held,
        None => function.interface.as_deref() == Some(wish.interface.as_str()),
    };
    if let Some((port, function)) = all.find(|(_, function)| is(function)) {
        return Ok(Some((port, function)));
    }
    let Some(number) = wish.function else { return Ok(None) };
    let port = port_of(ports, wish)?;
    let none = || Error::NoFunction { port: port.label(), number, now: port.count() };
    let function = port.function(number).ok_or_else(none)?;
    local_interface(port, function)?;
    Ok(Some((port, function)))
}

fn port_of<'p>(ports: &'p [Port], wish: &FunctionRequest) -> Result<&'p Port, Error> {
    let named = |port: &&Port| port.interface.as_deref() == Some(wish.interface.as_str());
    let port = ports.iter().find(named);
    let port = port.ok_or_else(|| Error::NoInterface { interface: wish.interface.clone() })?;
    if port.functions.is_empty() {
        return Err(Error::NoneMade { port: port.label(), most: port.max_functions });
    }
    Ok(port)
}

/// Marks a function as assigned.
fn take<'w>(
    taken: &mut BTreeMap<Address, &'w str>,
    wish: &'w FunctionRequest,
    port: &Port,
    function: &Function,
) -> Result<(), Error> {
    match taken.insert(function.address, &wish.nic) {
        None => Ok(()),
        Some(first) => Err(Error::TwoWant {
            port: port.label(),
            number: function.number,
            first: first.to_owned(),
            second: wish.nic.clone(),
        }),
    }
}

fn free<'p>(
    port: &'p Port,
    taken: &BTreeMap<Address, &str>,
    wish: &FunctionRequest,
) -> Result<&'p Function, Error> {
    let is_free = |function: &&Function| {
        matches!(function.place(), Location::Here(_)) && !taken.contains_key(&function.address)
    };
    let none = || Error::NoneLeft { port: port.label(), nic: wish.nic.clone(), now: port.count() };
    port.functions.iter().find(is_free).ok_or_else(none)
}

/// Returns the interface of a function in our namespace; the error says where the interface is instead.
pub(crate) fn local_interface<'f>(port: &Port, function: &'f Function) -> Result<&'f str, Error> {
    let why = match function.place() {
        Location::Here(interface) => return Ok(interface),
        Location::Elsewhere("vfio-pci") => {
            "is bound to vfio-pci, for a virtual machine: bind it to its own driver first".to_owned()
        }
        Location::Elsewhere(driver) => {
            format!(
                "has no interface here: its driver {driver} creates none, or it is in another namespace; stop the program that uses it"
            )
        }
        Location::Idle => {
            "has no driver: load the one for functions of this NIC (igbvf, ixgbevf, iavf, mlx5_core)"
                .to_owned()
        }
    };
    Err(Error::NotHere { port: port.label(), number: function.number, address: function.address, why })
}
