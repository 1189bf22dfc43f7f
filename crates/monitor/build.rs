//! The programs that see.

#[path = "../../bpf/compile.rs"]
mod compile;

fn main() -> anyhow::Result<()> {
    compile::programs(&["monitor", "journal", "feature"])
}
