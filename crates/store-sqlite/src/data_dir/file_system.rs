//! Which file systems a store refuses. SQLite's write-ahead log needs shared memory between connections and a
//! reliable sync. A network or cluster file system guarantees neither, and two servers on two machines would not
//! see each other's lock.
//!
//! FUSE is refused as a whole: its magic number does not distinguish sshfs, s3fs, rclone, GlusterFS and the shared
//! folders of Docker Desktop (virtiofs) from a local mergerfs or ntfs-3g, and most of the former acknowledge a sync
//! before the data is durable. Users who have no other file system can use PostgreSQL.

use std::io;
use std::path::Path;

/// (magic number, name), from Linux's `magic.h` and the file systems' own sources.
const REFUSED: [(u32, &str); 20] = [
    (0x0000_6969, "NFS"),
    (0x0000_517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x00C3_6400, "Ceph"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "kAFS"),
    (0x7375_7245, "Coda"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0xAAD7_AAEA, "PanFS"),
    (0x2003_0528, "OrangeFS"),
    (0x0000_564C, "NCP"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x786F_4256, "VirtualBox shared folder"),
    (0x6573_5546, "FUSE"),
    (0x6573_5543, "FUSE control"),
];

/// The name of a refused file system.
pub(crate) fn refused(magic: u32) -> Option<&'static str> {
    REFUSED.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

/// The magic number of the file system that contains the path.
#[cfg(target_os = "linux")]
pub(crate) fn magic(path: &Path) -> io::Result<u32> {
    // The number has 32 bits; the width and sign of the field depend on the platform.
    let number = i128::from(rustix::fs::statfs(path)?.f_type) & 0xFFFF_FFFF;
    u32::try_from(number).map_err(io::Error::other)
}

/// Other systems have no such numbers; 0 is not refused.
#[cfg(not(target_os = "linux"))]
pub(crate) fn magic(_path: &Path) -> io::Result<u32> {
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_file_systems_are_refused_by_name() {
        for (magic, name) in [
            (0x6969, "NFS"),
            (0x517B, "SMB"),
            (0xFF53_4D42, "CIFS"),
            (0xFE53_4D42, "SMB2"),
            (0x0102_1997, "9P"),
            (0x00C3_6400, "Ceph"),
            (0x5346_414F, "AFS"),
            (0x7375_7245, "Coda"),
            (0x0BD0_0BD0, "Lustre"),
            (0x4750_4653, "GPFS"),
            (0x6573_5546, "FUSE"),
        ] {
            assert_eq!(refused(magic), Some(name));
        }
    }

    #[test]
    fn local_file_systems_are_welcome() {
        let ext4 = 0xEF53;
        let (xfs, btrfs, tmpfs, zfs) = (0x5846_5342, 0x9123_683E, 0x0102_1994, 0x2FC1_2FC1);
        let (overlay, f2fs, bcachefs, apfs) = (0x794C_7630, 0xF2F5_2010, 0xCA45_1A4E, 0);
        for magic in [ext4, xfs, btrfs, tmpfs, zfs, overlay, f2fs, bcachefs, apfs] {
            assert_eq!(refused(magic), None, "{magic:#x}");
        }
    }

    #[test]
    fn no_number_stands_twice() {
        let mut numbers: Vec<u32> = REFUSED.iter().map(|(magic, _)| *magic).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), REFUSED.len());
    }

    #[test]
    fn the_probe_reads_a_number() {
        assert!(magic(Path::new("/proc")).unwrap() == 0x9FA0 || cfg!(not(target_os = "linux")));
        assert!(magic(Path::new("/does/not/exist")).is_err() || cfg!(not(target_os = "linux")));
    }
}
