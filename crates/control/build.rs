//! The programs that act.

#[path = "../../bpf/compile.rs"]
mod compile;

fn main() -> anyhow::Result<()> {
    compile::programs(&["steady", "policy"])
}
