//! Tests that fork, and those that a fork disturbs: until it ends, the child holds a copy of every
//! descriptor of this process, so nothing that another test closes is closed for its other end.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static FORKS: RwLock<()> = RwLock::new(());

/// For a test in which a descriptor's last copy is closed: no child of another one has a copy.
pub fn none() -> RwLockReadGuard<'static, ()> {
    FORKS.read().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that forks: kept until the child has ended.
pub fn one() -> RwLockWriteGuard<'static, ()> {
    FORKS.write().unwrap_or_else(PoisonError::into_inner)
}
