//! Memory that is available to this process: the minimum of what the machine has available, what
//! the limits of the process leave (`ulimit -v`, `ulimit -d`), and what each of its control groups
//! leaves, in version 1 and 2.
//!
//! Everything is read from `/proc` and `/sys/fs/cgroup`, which needs no system calls of our own. A
//! missing file is no limit. Systems other than Linux are assumed to have [`UNKNOWN`].

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes assumed where the system gives no information.
const UNKNOWN: u64 = 1 << 30;

/// Memory that is available to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AvailableMemory {
    /// Number of bytes.
    pub bytes: u64,
    /// The limit that determines it.
    pub limit: MemoryLimit,
}

/// What limits the memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryLimit {
    /// The memory of the machine that is not in use by other processes.
    Machine,
    /// The maximum size of the address space (`ulimit -v`). An allocation beyond it fails.
    AddressSpace,
    /// The maximum size of the data segment (`ulimit -d`). An allocation beyond it fails.
    DataSegment,
    /// A control group, as used by containers and batch systems.
    ControlGroup,
    /// The system gives no information.
    Unknown,
}

impl MemoryLimit {
    /// Whether an allocation beyond the limit fails, which ends the process.
    pub fn fails_allocations(self) -> bool {
        matches!(self, MemoryLimit::AddressSpace | MemoryLimit::DataSegment)
    }

    /// Whether a process that exceeds the limit is killed, even if the machine has free memory.
    pub fn is_enforced(self) -> bool {
        self.fails_allocations() || self == MemoryLimit::ControlGroup
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            MemoryLimit::Machine => "the machine",
            MemoryLimit::AddressSpace => "the limit of the address space (`ulimit -v`)",
            MemoryLimit::DataSegment => "the limit of the data segment (`ulimit -d`)",
            MemoryLimit::ControlGroup => "the control group",
            MemoryLimit::Unknown => "a system that does not report its memory",
        })
    }
}

/// Memory that is available to this process, as reported by the system.
pub fn available_memory() -> AvailableMemory {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (limits, status) = (read("/proc/self/limits"), read("/proc/self/status"));
    let groups = groups(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    let found = [
        (kilobytes(&read("/proc/meminfo"), "MemAvailable:"), MemoryLimit::Machine),
        (left_of_limit(&limits, "Max address space", &status, "VmSize:"), MemoryLimit::AddressSpace),
        (left_of_limit(&limits, "Max data size", &status, "VmData:"), MemoryLimit::DataSegment),
        (groups.iter().filter_map(Group::left).min(), MemoryLimit::ControlGroup),
    ];
    let known = found.into_iter().filter_map(|(bytes, limit)| Some(AvailableMemory { bytes: bytes?, limit }));
    known.min_by_key(|available| available.bytes).unwrap_or(AvailableMemory { bytes: UNKNOWN, limit: MemoryLimit::Unknown })
}

/// Where the address space is limited (`ulimit -v`), makes all threads allocate from one arena,
/// since glibc would reserve 64 MB for each thread. For commands, before their first thread starts:
/// it applies to the whole process. Does nothing elsewhere.
pub fn spare_address_space() {
    if left_of_limit(&fs::read_to_string("/proc/self/limits").unwrap_or_default(), "Max address space", "", "").is_some() {
        vmfkit_kernels::allocator::use_one_arena();
    }
}

/// A number of kilobytes of `/proc/meminfo` or `/proc/self/status`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What a soft limit of `/proc/self/limits` leaves after what is in use; `None` if there is no
/// limit.
fn left_of_limit(limits: &str, name: &str, status: &str, in_use: &str) -> Option<u64> {
    let soft = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
    Some(soft.parse::<u64>().ok()?.saturating_sub(kilobytes(status, in_use).unwrap_or(0)))
}

/// A control group of this process that may limit its memory, with all groups that contain it.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    version: Version,
    /// The folder of the group, below that of the outermost group.
    folder: PathBuf,
    outermost: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// Names of the files with the limits, of the file with the bytes in use, and of the entry of
    /// `memory.stat` for reclaimable bytes.
    fn names(self) -> (&'static [&'static str], &'static str, &'static str) {
        match self {
            Version::One => (&["memory.limit_in_bytes"], "memory.usage_in_bytes", "total_inactive_file"),
            Version::Two => (&["memory.max", "memory.high"], "memory.current", "inactive_file"),
        }
    }
}

impl Group {
    /// The minimum of what this group and those that contain it leave.
    fn left(&self) -> Option<u64> {
        let levels = self.folder.ancestors().take_while(|folder| folder.starts_with(&self.outermost));
        levels.filter_map(|folder| self.left_at(folder)).min()
    }

    fn left_at(&self, folder: &Path) -> Option<u64> {
        let (limits, in_use, inactive) = self.version.names();
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
        let limit = limits.iter().filter_map(|name| number(name)).min()?;
        let entry = |text: String| text.lines().find_map(|line| line.strip_prefix(inactive)?.trim().parse::<u64>().ok());
        let inactive = read("memory.stat").and_then(entry).unwrap_or(0);
        Some(limit.saturating_sub(number(in_use)?.saturating_sub(inactive)))
    }
}

/// The groups of `/proc/self/cgroup` that can limit memory. `/proc/self/mountinfo` says where their
/// hierarchies are mounted.
fn groups(cgroup: &str, mountinfo: &str) -> Vec<Group> {
    let group = |line: &str| {
        // Hierarchy number, controllers, path. Version 2 has the number 0 and no controllers.
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let version = match number == "0" && controllers.is_empty() {
            true => Version::Two,
            false if controllers.split(',').any(|name| name == "memory") => Version::One,
            false => return None,
        };
        let (root, outermost) = mountinfo.lines().find_map(|line| mount(line, version))?;
        // A container may see only the mount of its own group, while the path is that outside of
        // the container.
        let within = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(""));
        let plain = within.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        Some(Group { version, folder: if plain { outermost.join(within) } else { outermost.clone() }, outermost })
    };
    cgroup.lines().filter_map(group).collect()
}

/// Root and mount point in a line of mountinfo, if it is the hierarchy of memory.
fn mount(line: &str, version: Version) -> Option<(PathBuf, PathBuf)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let (name, options) = (kind.next()?, kind.nth(1)?);
    let fits = match version {
        Version::One => name == "cgroup" && options.split(',').any(|option| option == "memory"),
        Version::Two => name == "cgroup2",
    };
    let mut paths = mount.split(' ').skip(3).map(|path| PathBuf::from(path.replace("\\040", " ")));
    fits.then(|| paths.next().zip(paths.next())).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max data size             unlimited            unlimited            bytes     
Max stack size            8388608              unlimited            bytes     
Max address space         614400000            unlimited            bytes     
";
    const STATUS: &str = "Name:\tvmf\nVmPeak:\t   20000 kB\nVmSize:\t   16000 kB\nVmData:\t    3000 kB\n";

    #[test]
    fn memory_in_use_is_subtracted_from_process_limits() {
        assert_eq!(left_of_limit(LIMITS, "Max address space", STATUS, "VmSize:"), Some(614_400_000 - 16_000 * 1024));
        assert_eq!(left_of_limit(LIMITS, "Max data size", STATUS, "VmData:"), None);
        let small = LIMITS.replace("614400000", "10");
        assert_eq!(left_of_limit(&small, "Max address space", STATUS, "VmSize:"), Some(0));
        assert_eq!(left_of_limit(&small, "Max address space", "", "VmSize:"), Some(10));
        assert_eq!(left_of_limit("", "Max address space", STATUS, "VmSize:"), None);
        let meminfo = "MemTotal:       16384 kB\nMemFree:  7 kB\nMemAvailable:   12288 kB\n";
        assert_eq!(kilobytes(meminfo, "MemAvailable:"), Some(12_288 * 1024));
        assert_eq!(kilobytes("MemAvailable: many kB\n", "MemAvailable:"), None);
        assert_eq!(kilobytes("MemAvailable: 18446744073709551615 kB\n", "MemAvailable:"), None);
    }

    /// A machine with version 2, one with both, a container of each version, and hierarchies that
    /// mountinfo does not list.
    #[test]
    fn groups_are_found_where_their_hierarchies_are_mounted() {
        let group =
            |version, folder: &str, outermost: &str| Group { version, folder: folder.into(), outermost: outermost.into() };
        let two = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let one = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(
            groups("0::/user.slice/user-1000.slice/run-7.scope\n", two),
            [group(Version::Two, "/sys/fs/cgroup/user.slice/user-1000.slice/run-7.scope", "/sys/fs/cgroup")]
        );
        let unified = two.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ");
        assert_eq!(
            groups("5:cpu:/\n4:memory:/batch/job-9\n1:name=systemd:/memory\n0::/\n", &format!("{one}{unified}")),
            [
                group(Version::One, "/sys/fs/cgroup/memory/batch/job-9", "/sys/fs/cgroup/memory"),
                group(Version::Two, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified")
            ]
        );
        let container = one.replace("0:32 / ", "0:32 /docker/abc ");
        assert_eq!(
            groups("4:cpuset,memory:/docker/abc/inner\n", &container),
            [group(Version::One, "/sys/fs/cgroup/memory/inner", "/sys/fs/cgroup/memory")]
        );
        assert_eq!(
            groups("4:memory:/elsewhere\n", &container),
            [group(Version::One, "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory")]
        );
        assert_eq!(groups("0::/../sibling\n", two), [group(Version::Two, "/sys/fs/cgroup", "/sys/fs/cgroup")]);
        let blank = two.replace("/sys/fs/cgroup ", "/mnt/control\\040groups ");
        assert_eq!(groups("0::/a:b\n", &blank), [group(Version::Two, "/mnt/control groups/a:b", "/mnt/control groups")]);
        for (cgroup, mountinfo) in
            [("", two), ("0::/\n", ""), ("4:memory:/\n", two), ("5:cpu:/\n", one), ("nonsense", two), ("0::/", "x - cgroup2")]
        {
            assert_eq!(groups(cgroup, mountinfo), []);
        }
    }

    #[test]
    fn the_smallest_limit_of_nested_groups_counts() {
        let folder = tempfile::tempdir().unwrap();
        let outermost = folder.path().to_owned();
        let inner = outermost.join("job/step");
        fs::create_dir_all(&inner).unwrap();
        let write = |at: &str, texts: &[(&str, &str)]| {
            texts.iter().for_each(|(name, text)| fs::write(outermost.join(at).join(name), text).unwrap());
        };
        let left = |version| Group { version, folder: inner.clone(), outermost: outermost.clone() }.left();
        assert_eq!(left(Version::Two), None);
        write("job/step", &[("memory.max", "max\n"), ("memory.high", "max\n"), ("memory.current", "700\n")]);
        assert_eq!(left(Version::Two), None, "there is no limit");
        write(
            "job",
            &[("memory.max", "1000\n"), ("memory.current", "900\n"), ("memory.stat", "anon 5\ninactive_file 400\nfile 600\n")],
        );
        assert_eq!(left(Version::Two), Some(500), "inactive file pages are reclaimable");
        write("job/step", &[("memory.high", "800\n")]);
        assert_eq!(left(Version::Two), Some(100));
        write("", &[("memory.max", "10\n"), ("memory.current", "20\n")]);
        assert_eq!(left(Version::Two), Some(0));

        assert_eq!(left(Version::One), None);
        let none = "9223372036854771712\n";
        write("job/step", &[("memory.limit_in_bytes", none), ("memory.usage_in_bytes", "50\n")]);
        write("job", &[("memory.limit_in_bytes", "800\n"), ("memory.usage_in_bytes", "650\n")]);
        write("job", &[("memory.stat", "inactive_file 1\ntotal_inactive_file 100\n")]);
        assert_eq!(left(Version::One), Some(250));
    }

    #[test]
    fn available_memory_is_positive() {
        let AvailableMemory { bytes, limit } = available_memory();
        assert!(bytes > 0 && !limit.to_string().is_empty());
        assert_eq!(limit == MemoryLimit::Unknown, !cfg!(target_os = "linux"));
    }
}
