//! The kernel's side of a scope: rules for new connections, a walk over the
//! running ones, and what was there before.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytemuck::{bytes_of, pod_read_unaligned};
use libbpf_rs::{Link, Map, MapCore, MapFlags, MapHandle, Object, OpenObject};
use transom_machine::objects::{self, map, map_mut, program};
use transom_machine::{cgroup, iterator, load_sharing, namespace};

use crate::contract::{Mode, Orders, RULES, RawRule, Seen, Wish};
use crate::scope::{RULES_PIN, Scope};
use crate::steady;

/// How long the list of namespaces is believed.
const NAMESPACES_FOR: Duration = Duration::from_secs(2);

const TUNED: &str = "transom_tuned";
const WISHES: &str = "wishes";

/// Programs that act, loaded; attached only when asked. Dropping it detaches
/// them and leaves connections as they are: see [`KernelScope::restore`].
pub struct KernelScope {
    scope: Scope,
    links: Vec<(String, Link)>,
    walk: Link,
    object: Object,
    namespaces: (Instant, Vec<(u64, PathBuf)>),
    here: u64,
    terminals: u32,
    _lock: Option<File>,
}

/// Algorithms that connections can be given now, `steady` among them.
pub fn available_algorithms() -> Vec<String> {
    let mut names = steady::available();
    if !names.iter().any(|name| name == steady::NAME) {
        names.push(steady::NAME.into());
    }
    names
}

impl KernelScope {
    /// Loads the programs and takes the scope.
    ///
    /// # Errors
    /// When another process has the scope or a part of it, rules that were set by hand overlap it,
    /// or a privilege or a feature of the kernel is missing.
    pub fn open(scope: Scope) -> Result<KernelScope> {
        scope.overlaps()?;
        KernelScope::take(scope)
    }

    /// The same, whatever was set by hand: to give it back.
    ///
    /// # Errors
    /// When another process has the scope, or something is missing.
    pub fn take(scope: Scope) -> Result<KernelScope> {
        let lock = scope.lock()?;
        let pinned = scope.prepare()?.join(TUNED);
        let mut kernel = KernelScope::look(scope)?;
        kernel._lock = Some(lock);
        if !pinned.exists() {
            map_mut(&mut kernel.object, TUNED)?
                .pin(&pinned)
                .with_context(|| format!("pinning {}", pinned.display()))?;
        }
        Ok(kernel)
    }

    /// Loads the programs to look only: nothing may be done with it.
    ///
    /// # Errors
    /// When a privilege or a feature of the kernel is missing.
    pub fn look(scope: Scope) -> Result<KernelScope> {
        KernelScope::load(scope, objects::policy::open()?)
    }

    fn load(scope: Scope, programs: OpenObject) -> Result<KernelScope> {
        // A map that is pinned is among the kernel's maps, so it is found by its name.
        let object =
            load_sharing(programs).context("the kernel did not accept the policy's programs")?;
        let walk = program(&object, "walk")?.attach().context("attaching the walk")?;
        let here = namespace::own().map_or(0, u64::from);
        let long_ago = Instant::now() - 2 * NAMESPACES_FOR;
        Ok(KernelScope {
            scope,
            links: Vec::new(),
            walk,
            object,
            namespaces: (long_ago, Vec::new()),
            here,
            terminals: 0,
            _lock: None,
        })
    }

    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Rules that `transom tune set` left in force.
    pub fn pinned_rules(&self) -> Vec<RawRule> {
        self.scope.rules()
    }

    /// Whether something is in force that outlives its process.
    pub fn is_pinned(&self) -> bool {
        self.scope.pins().join(RULES_PIN).exists()
    }

    /// Rules for new connections, and what [`Seen::rules`] counts.
    pub fn set_rules(&self, rules: &[RawRule]) -> Result<()> {
        put_rules(&self.map("rules")?, rules)
    }

    /// How many terminals share the access point; 0 = not known.
    pub fn set_terminals(&mut self, terminals: u32) -> Result<()> {
        self.terminals = terminals;
        self.order(Mode::Observe)
    }

    fn order(&self, mode: Mode) -> Result<()> {
        let orders = Orders { mode: mode as u32, terminals: self.terminals };
        Ok(self.map("orders")?.update(&0u32.to_ne_bytes(), bytes_of(&orders), MapFlags::ANY)?)
    }

    fn map(&self, name: &str) -> Result<Map<'_>> {
        map(&self.object, name)
    }

    /// From now on, new connections get what the rules say.
    ///
    /// # Errors
    /// When there is no cgroup v2, or the kernel refuses.
    pub fn attach(&mut self) -> Result<()> {
        self.order(Mode::Observe)?;
        steady::ensure()?;
        self.follow_owners()?;
        let mount = cgroup::needed_mount()?;
        let root = File::open(&mount).with_context(|| format!("opening {}", mount.display()))?;
        let link = program(&self.object, "established")?
            .attach_cgroup(root.as_raw_fd())
            .with_context(|| format!("attaching to the cgroup {}", mount.display()))?;
        self.links.push(("established".into(), link));
        Ok(())
    }

    /// Who holds the sockets that are there, and from now on those that come.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn follow_owners(&mut self) -> Result<()> {
        // First, so that no socket comes between.
        let owned = program(&self.object, "owned")?.attach().context("attaching `owned`")?;
        self.links.push(("owned".into(), owned));
        self.find_owners()?;
        // Of Multipath TCP, the walk finds which listener is whose.
        self.walk(Mode::Observe).map(drop)
    }

    /// Who holds the sockets that are there already.
    pub fn find_owners(&self) -> Result<()> {
        let link = program(&self.object, "earlier_owners")?.attach()?;
        iterator::run(&link, None).map(drop).context("looking for owners of sockets")
    }

    /// What is attached stays when we go, until [`KernelScope::unkeep`].
    pub fn keep(mut self) -> Result<()> {
        let pins = self.scope.pins();
        for (name, link) in &mut self.links {
            link.pin(pins.join(name.as_str())).with_context(|| format!("pinning {name}"))?;
        }
        Ok(map_mut(&mut self.object, "rules")?.pin(pins.join(RULES_PIN))?)
    }

    /// Detaches what an earlier `keep` left; connections stay as they are.
    pub fn unkeep(&self) -> Result<()> {
        let pins = self.scope.pins();
        // The kernel detaches in its own time; without rules nothing is done until then.
        if let Ok(rules) = MapHandle::from_pinned_path(pins.join(RULES_PIN))
            && rules.value_size() as usize == size_of::<RawRule>()
        {
            put_rules(&rules, &[])?;
        }
        for name in ["established", "owned", RULES_PIN] {
            let path = pins.join(name);
            if path.exists() {
                std::fs::remove_file(&path)
                    .with_context(|| format!("removing {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Gives every connection back what it had, and leaves nothing behind. First no new connection
    /// gets anything: the walk has passed the place where it opens, and what is not taken back
    /// before the notes are gone never is.
    ///
    /// # Errors
    /// When the walk fails; the next start tries again.
    pub fn give_back(mut self) -> Result<()> {
        self.set_rules(&[])?;
        self.links.clear();
        self.restore()?;
        self.forget()
    }

    /// Nothing is left of us but what connections still use.
    fn forget(self) -> Result<()> {
        let scope = self.scope.clone();
        drop(self);
        scope.forget()
    }

    /// Every connection of the scope.
    ///
    /// # Errors
    /// When its namespace is gone, or the walk fails.
    pub fn observe(&mut self) -> Result<Vec<Seen>> {
        let bytes = self.walk(Mode::Observe)?;
        if self.namespaces.1.is_empty() {
            bail!("{} is gone, and its connections with it", self.scope);
        }
        Ok(bytes.chunks_exact(size_of::<Seen>()).map(pod_read_unaligned).collect())
    }

    /// Does to each of these connections, by cookie, what is wished.
    pub fn act(&mut self, wishes: &[(u64, Wish)]) -> Result<()> {
        let room = self.map(WISHES)?.max_entries() as usize;
        wishes.chunks(room).try_for_each(|some| self.act_on(some))
    }

    /// The same for as many as the kernel takes at a time; it keeps none of them.
    fn act_on(&mut self, wishes: &[(u64, Wish)]) -> Result<()> {
        let result = self.put(wishes).and_then(|()| self.walk(Mode::Act));
        let map = self.map(WISHES)?;
        for (cookie, _) in wishes {
            let _ = map.delete(&cookie.to_ne_bytes());
        }
        result.map(drop)
    }

    fn put(&self, wishes: &[(u64, Wish)]) -> Result<()> {
        let map = self.map(WISHES)?;
        wishes.iter().try_for_each(|(cookie, wish)| {
            map.update(&cookie.to_ne_bytes(), bytes_of(wish), MapFlags::ANY)
                .context("telling the kernel what to do with a connection")
        })
    }

    /// Gives every connection of the scope back what it had before us.
    pub fn restore(&mut self) -> Result<()> {
        // The way back leads over `steady`: see bpf/policy.bpf.c.
        steady::ensure()?;
        self.namespaces.0 -= 2 * NAMESPACES_FOR;
        self.walk(Mode::Restore).map(drop)
    }

    fn walk(&mut self, mode: Mode) -> Result<Vec<u8>> {
        self.order(mode)?;
        self.look_for_namespaces();
        let mut bytes = Vec::new();
        for (inode, path) in &self.namespaces.1 {
            let elsewhere = (*inode != self.here).then_some(path.as_path());
            match iterator::run(&self.walk, elsewhere) {
                Ok(seen) => bytes.extend(seen),
                // A namespace may go while we look.
                Err(_) if !path.exists() => {}
                Err(error) => {
                    let place = format!("walking over connections in {}", path.display());
                    return Err(error.context(place));
                }
            }
        }
        Ok(bytes)
    }

    fn look_for_namespaces(&mut self) {
        if self.namespaces.0.elapsed() < NAMESPACES_FOR {
            return;
        }
        let mut all: HashMap<u64, PathBuf> = namespace::all();
        // A namespace may be kept by a file that is in none of the usual places.
        let named = self.scope.netns.as_deref().and_then(|name| namespace::path(name).ok());
        if let Some(path) = named
            && let Ok(inode) = namespace::inode(&path)
        {
            all.entry(inode.into()).or_insert(path);
        }
        let wanted = |inode: u64| self.scope.inode == 0 || u64::from(self.scope.inode) == inode;
        let list = all.into_iter().filter(|&(inode, _)| wanted(inode)).collect();
        self.namespaces = (Instant::now(), list);
    }
}

fn put_rules(map: &impl MapCore, rules: &[RawRule]) -> Result<()> {
    for n in 0..RULES {
        let rule = rules.get(n).copied().unwrap_or_default();
        map.update(&(n as u32).to_ne_bytes(), bytes_of(&rule), MapFlags::ANY)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use transom_testbed::{Namespace, needs_probes};

    use super::*;
    use crate::contract::name16;

    /// The programs, with room for so few wishes at a time.
    const ROOM: u32 = 4;

    fn kernel_of(host: &Namespace) -> KernelScope {
        let mut programs = objects::policy::open().unwrap();
        let wishes = programs.maps_mut().find(|map| map.name() == WISHES);
        wishes.unwrap().set_max_entries(ROOM).unwrap();
        KernelScope::load(Scope::new(Some(host.name())).unwrap(), programs).unwrap()
    }

    fn connections(host: &Namespace, count: usize) -> Vec<TcpStream> {
        host.inside(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (0..count).flat_map(|_| [connect(), listener.accept().unwrap().0]).collect()
        })
    }

    /// To give each connection this algorithm.
    fn wishes(kernel: &mut KernelScope, algorithm: &str) -> Vec<(u64, Wish)> {
        let wish = Wish { algorithm: name16(algorithm), ..Wish::default() };
        kernel.observe().unwrap().iter().map(|seen| (seen.cookie, wish)).collect()
    }

    fn algorithms(kernel: &mut KernelScope) -> Vec<String> {
        kernel.observe().unwrap().iter().map(|seen| seen.open.algorithm()).collect()
    }

    #[test]
    fn more_connections_than_the_kernel_takes_at_a_time_are_all_reached() {
        needs_probes!();
        let host = Namespace::new("host");
        let _streams = connections(&host, 5);
        let mut kernel = kernel_of(&host);
        let wishes = wishes(&mut kernel, "cubic");
        assert_eq!(algorithms(&mut kernel), ["reno"; 10]);
        kernel.act(&wishes).unwrap();
        assert_eq!(algorithms(&mut kernel), ["cubic"; 10]);
        assert_eq!(kernel.map(WISHES).unwrap().keys().count(), 0, "the kernel keeps none");
    }

    #[test]
    fn when_the_kernel_refuses_a_wish_it_keeps_none_of_the_others() {
        needs_probes!();
        let host = Namespace::new("host");
        let _streams = connections(&host, 5);
        let mut kernel = kernel_of(&host);
        let wishes = wishes(&mut kernel, "cubic");
        let of_another = 0u64.to_ne_bytes();
        let map = kernel.map(WISHES).unwrap();
        map.update(&of_another, bytes_of(&Wish::default()), MapFlags::ANY).unwrap();
        let error = kernel.act(&wishes).unwrap_err();
        assert!(error.to_string().contains("what to do with a connection"), "{error:#}");
        assert_eq!(kernel.map(WISHES).unwrap().keys().collect::<Vec<_>>(), [of_another]);
    }
}
