//! Where the events come from: what a file of another tool should still say.

/// The recording behind a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Program and version that write the file, as `transom 0.1.0`.
    pub program: String,
    /// `uname -r` of the machine that was recorded.
    pub kernel: String,
    pub host: String,
    /// Cookies and times compare only within one boot.
    pub boot_id: String,
    /// CLOCK_REALTIME minus CLOCK_BOOTTIME, ns: add it to `time_ns` for wall time.
    pub realtime_offset_ns: i64,
    /// How the recording was made.
    pub command_line: String,
    /// The recording did not come to its end.
    pub cut: bool,
}

impl Origin {
    /// What a reader of the file should know before anything else.
    pub fn remark(&self) -> String {
        let mut remark = format!("recorded on {} by: {}", self.host, self.command_line);
        if self.cut {
            remark += "; the recording is cut: it did not come to its end";
        }
        remark
    }
}
