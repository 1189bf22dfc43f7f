//! The program that keeps the host's own stack away from our packets.

#[path = "../../bpf/compile.rs"]
mod compile;

fn main() -> anyhow::Result<()> {
    compile::programs(&["divert"])
}
