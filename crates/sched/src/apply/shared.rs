//! Changes to what all runs share, under a lock that need not be waited for.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use super::Applier;
use crate::cgroup::{self, Version};
use crate::error::ApplyError;
use crate::exclusive_cpus;
use crate::outline::Outline;
use crate::undo::Undo;

impl Applier {
    /// Takes the lock that [`Applier::make`] needs for this outline, if it needs one, until
    /// [`Applier::unlock`]. For callers that must not block: returns false if another run holds it.
    ///
    /// # Errors
    /// Other users may open the folder that is locked.
    pub fn try_lock(&mut self, outline: &Outline) -> Result<bool, ApplyError> {
        let islands = outline.islands.iter().chain(&self.outline.islands).count();
        let is_v2 = self.host.cpu.as_ref().is_ok_and(|found| found.version == Version::V2);
        if islands > 0 || (is_v2 && !outline.groups.is_empty()) {
            return self.shared.try_lock().map_err(cannot_change);
        }
        Ok(true)
    }

    /// Releases the lock.
    pub fn unlock(&mut self) {
        self.shared.unlock();
    }

    /// Error to report if another run holds the lock for too long.
    pub fn locked_out(&self) -> ApplyError {
        cannot_change(self.shared.is_held())
    }

    /// Undoes the first object that matches. Returns an error if that fails.
    pub(super) fn take_away(&mut self, is_meant: impl Fn(&Undo) -> bool) -> Option<ApplyError> {
        let at = self.undos.iter().position(is_meant)?;
        let undo = self.undos.remove(at);
        self.carry_out(undo)
    }

    /// Undoes an object, or keeps it for the next time if ending threads are still in it. Returns what went
    /// wrong.
    fn carry_out(&mut self, undo: Undo) -> Option<ApplyError> {
        let error = undo.carried_out(self.shared.is_locked()).err()?;
        if !cgroup::is_in_use(&error) {
            return Some(undo.left_behind(error));
        }
        let what = format!("{} cannot be removed yet", undo.path().display());
        self.leaving.push(undo);
        Some(ApplyError::host(what, error))
    }

    /// Removes objects that are no longer needed.
    pub(super) fn retire(&mut self) -> Vec<ApplyError> {
        let mut wanted: Vec<PathBuf> = self.outline.interrupts.iter().map(|moved| moved.path()).collect();
        if let Ok(hierarchy) = &self.host.cpuset {
            let islands = self.outline.islands.iter();
            wanted.extend(islands.map(|held| exclusive_cpus::path(hierarchy, &self.run, &held.cpus)));
        }
        if let Ok(hierarchy) = &self.host.cpu {
            wanted.extend(self.outline.groups.iter().map(|held| self.group_path(hierarchy, &held.name)));
        }
        // A controller stays on until the end of the run.
        let is_spare =
            |undo: &Undo| !matches!(undo, Undo::Controller { .. }) && !wanted.contains(&undo.path());
        let was_locked = self.shared.is_locked();
        let mut errors = Vec::new();
        for undo in std::mem::take(&mut self.leaving) {
            if undo.is_shared() && matches!(self.shared.try_lock(), Ok(false)) {
                errors.push(cannot_change(Errno::AGAIN.into()));
                self.leaving.push(undo);
            } else {
                errors.extend(self.carry_out(undo));
            }
        }
        while let Some(spare) = self.undos.iter().find(|undo| is_spare(undo)) {
            if spare.is_shared() {
                match self.shared.try_lock() {
                    Ok(true) => {}
                    Ok(false) => {
                        errors.push(cannot_change(Errno::AGAIN.into()));
                        break;
                    }
                    // Removal is attempted without the lock; its error says why the object is left behind.
                    Err(_) => {}
                }
            }
            errors.extend(self.take_away(is_spare));
        }
        if !was_locked {
            self.unlock();
        }
        errors
    }
}

fn cannot_change(why: io::Error) -> ApplyError {
    ApplyError::host("what threads are placed in cannot be changed", why)
}

#[cfg(test)]
mod tests;
