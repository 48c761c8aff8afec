//! Tables of what the kernel keeps, as a [`crate::Mirror`] holds them.

use std::collections::BTreeMap;

use netlink_packet_route::RouteNetlinkMessage;

/// A kind of thing that the kernel keeps in a table.
pub trait Object: Sized + Clone + PartialEq {
    /// What tells it from others. The kernel may keep several with one `Id` (routes that were appended): they differ in
    /// their `Variant`.
    type Id: Ord + Clone;
    /// What tells those with one `Id` from each other; its default is the smallest.
    type Variant: Ord + Clone + Default;

    /// The request for all of the table.
    #[doc(hidden)]
    fn wanted() -> RouteNetlinkMessage;

    /// The object that a message is about; none if it is about something else. True: it is there; false: it is gone.
    #[doc(hidden)]
    fn read(message: RouteNetlinkMessage) -> Option<(bool, Self)>;

    /// What tells it from all others.
    fn key(&self) -> (Self::Id, Self::Variant);

    /// What is left of it when `gone`, which has its `Id`, is taken away, where the kernel tells of parts.
    fn without(&self, _gone: &Self) -> Option<Self> {
        None
    }
}

/// What happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// It is new, or was changed and is so now.
    Set(T),
    /// It is gone, and was so last.
    Gone(T),
}

/// The objects of a kind by what tells them apart.
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
    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.rows.values()
    }

    /// Those with this `Id`, in order.
    pub fn of(&self, id: &T::Id) -> impl Iterator<Item = &T> {
        let first = (id.clone(), T::Variant::default());
        self.rows.range(first..).take_while(move |((found, _), _)| found == id).map(|(_, object)| object)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes what the kernel says of an object, and tells what that changes. `replaces`: it takes the place of all others with
    /// its `Id`.
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

    /// Takes the whole table anew, and tells what is different.
    pub(crate) fn take_all(&mut self, objects: Vec<T>, tell: &mut dyn FnMut(Change<T>)) {
        let new: BTreeMap<_, T> = objects.into_iter().map(|object| (object.key(), object)).collect();
        let old = std::mem::replace(&mut self.rows, new);
        for (key, object) in &old {
            if !self.rows.contains_key(key) {
                tell(Change::Gone(object.clone()));
            }
        }
        for (key, object) in &self.rows {
            if old.get(key) != Some(object) {
                tell(Change::Set(object.clone()));
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
