//! Tables of kernel objects, as held by a [`crate::Mirror`].

use std::collections::BTreeMap;
use std::io;

use netlink_packet_route::RouteNetlinkMessage;

use crate::Netlink;

/// Kind of object that the kernel keeps in a table.
pub trait Object: Sized + Clone + PartialEq {
    /// Identity. The kernel may keep several objects with one `Id` (appended routes), which differ in their
    /// `Variant`.
    type Id: Ord + Clone;
    /// Distinguishes objects with one `Id`; the default is the smallest value.
    type Variant: Ord + Clone + Default;

    /// Request for a dump of the table.
    #[doc(hidden)]
    fn wanted() -> RouteNetlinkMessage;

    /// Dumps all objects for which `keeps` returns true.
    #[doc(hidden)]
    fn dump(kernel: &Netlink, keeps: fn(&Self) -> bool) -> io::Result<Vec<Self>> {
        kernel.dumped(&Self::wanted(), keeps)
    }

    /// Object of a message, and whether it exists (true) or was deleted; `None` for messages about something
    /// else.
    #[doc(hidden)]
    fn read(message: RouteNetlinkMessage) -> Option<(bool, Self)>;

    /// Unique key.
    fn key(&self) -> (Self::Id, Self::Variant);

    /// Remainder after `gone`, which has the same `Id`, is removed, if the kernel reports partial removals.
    fn without(&self, _gone: &Self) -> Option<Self> {
        None
    }
}

/// Change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// It is new or was changed; its present value.
    Set(T),
    /// It was deleted; its last value.
    Gone(T),
}

/// Objects of a kind by their keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<T: Object> {
    rows: BTreeMap<(T::Id, T::Variant), T>,
}

impl<T: Object> Default for Table<T> {
    fn default() -> Self {
        Self { rows: BTreeMap::new() }
    }
}

impl<T: Object> Table<T> {
    /// All objects, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.rows.values()
    }

    /// Objects with this `Id`, in order.
    pub fn of(&self, id: &T::Id) -> impl Iterator<Item = &T> {
        let first = (id.clone(), T::Variant::default());
        self.rows.range(first..).take_while(move |((found, _), _)| found == id).map(|(_, object)| object)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if it is empty.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Applies the kernel's report about an object, and reports the resulting changes. `replaces`: the object
    /// replaces all others with its `Id`.
    pub(crate) fn take(
        &mut self,
        object: T,
        is_there: bool,
        replaces: bool,
        tell: &mut dyn FnMut(Change<T>),
    ) {
        if !is_there {
            return self.remove(&object, tell);
        }
        let key = object.key();
        if replaces {
            self.remove_others(&key, tell);
        }
        if self.rows.get(&key) != Some(&object) {
            self.rows.insert(key, object.clone());
            tell(Change::Set(object));
        }
    }

    /// Removes the objects that `object`, which is not kept itself, has replaced.
    pub(crate) fn displace(&mut self, object: &T, tell: &mut dyn FnMut(Change<T>)) {
        let key = object.key();
        self.remove_others(&key, tell);
        self.rows.remove(&key).into_iter().for_each(|row| tell(Change::Gone(row)));
    }

    /// Replaces the whole table, and reports the differences.
    pub(crate) fn take_all(&mut self, objects: Vec<T>, tell: &mut dyn FnMut(Change<T>)) {
        self.take_part(objects, |_| true, tell);
    }

    /// Replaces the part of the table that has these `Id`s, and reports the differences.
    pub(crate) fn take_part(
        &mut self,
        objects: Vec<T>,
        is_of_part: impl Fn(&T::Id) -> bool,
        tell: &mut dyn FnMut(Change<T>),
    ) {
        let new: BTreeMap<_, T> = objects.into_iter().map(|object| (object.key(), object)).collect();
        let is_gone = |key: &&(T::Id, T::Variant)| is_of_part(&key.0) && !new.contains_key(*key);
        let gone: Vec<_> = self.rows.keys().filter(is_gone).cloned().collect();
        for key in gone {
            self.rows.remove(&key).into_iter().for_each(|row| tell(Change::Gone(row)));
        }
        for (key, object) in new {
            if self.rows.get(&key) != Some(&object) {
                self.rows.insert(key, object.clone());
                tell(Change::Set(object));
            }
        }
    }

    fn remove(&mut self, gone: &T, tell: &mut dyn FnMut(Change<T>)) {
        let key = gone.key();
        if let Some(row) = self.rows.remove(&key) {
            return tell(Change::Gone(row));
        }
        let part = self.of(&key.0).find_map(|row| Some((row.clone(), row.without(gone)?)));
        if let Some((row, rest)) = part {
            self.rows.remove(&row.key());
            tell(Change::Gone(row));
            self.rows.insert(rest.key(), rest.clone());
            tell(Change::Set(rest));
        }
    }

    fn remove_others(&mut self, key: &(T::Id, T::Variant), tell: &mut dyn FnMut(Change<T>)) {
        let others: Vec<_> = self.of(&key.0).map(T::key).filter(|other| other != key).collect();
        for other in others {
            self.rows.remove(&other).into_iter().for_each(|row| tell(Change::Gone(row)));
        }
    }
}

#[cfg(test)]
mod tests;
