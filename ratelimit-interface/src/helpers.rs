//! The helpers of the kernel that the XDP program calls. A kernel is judged by them rather than by
//! its version: some distributions call theirs 5.14 and have the BPF of 6.x.

use aya::{
    programs::{ProgramError, ProgramType},
    sys::{BpfHelper, is_helper_supported},
};

/// Each helper, with its name.
pub const HELPERS: [(BpfHelper, &str); 19] = [
    (BpfHelper::BPF_FUNC_map_lookup_elem, "bpf_map_lookup_elem"),
    (BpfHelper::BPF_FUNC_map_update_elem, "bpf_map_update_elem"),
    (BpfHelper::BPF_FUNC_ktime_get_ns, "bpf_ktime_get_ns"),
    (BpfHelper::BPF_FUNC_get_prandom_u32, "bpf_get_prandom_u32"),
    (
        BpfHelper::BPF_FUNC_get_smp_processor_id,
        "bpf_get_smp_processor_id",
    ),
    (BpfHelper::BPF_FUNC_tail_call, "bpf_tail_call"),
    (BpfHelper::BPF_FUNC_xdp_adjust_tail, "bpf_xdp_adjust_tail"),
    (BpfHelper::BPF_FUNC_sk_lookup_udp, "bpf_sk_lookup_udp"),
    (BpfHelper::BPF_FUNC_sk_release, "bpf_sk_release"),
    (BpfHelper::BPF_FUNC_skc_lookup_tcp, "bpf_skc_lookup_tcp"),
    (
        BpfHelper::BPF_FUNC_tcp_check_syncookie,
        "bpf_tcp_check_syncookie",
    ),
    (
        BpfHelper::BPF_FUNC_tcp_gen_syncookie,
        "bpf_tcp_gen_syncookie",
    ),
    (BpfHelper::BPF_FUNC_jiffies64, "bpf_jiffies64"),
    (BpfHelper::BPF_FUNC_ringbuf_output, "bpf_ringbuf_output"),
    (BpfHelper::BPF_FUNC_ringbuf_reserve, "bpf_ringbuf_reserve"),
    (BpfHelper::BPF_FUNC_ringbuf_submit, "bpf_ringbuf_submit"),
    (BpfHelper::BPF_FUNC_ringbuf_discard, "bpf_ringbuf_discard"),
    (BpfHelper::BPF_FUNC_xdp_get_buff_len, "bpf_xdp_get_buff_len"),
    (BpfHelper::BPF_FUNC_xdp_load_bytes, "bpf_xdp_load_bytes"),
];

/// Returns the names of the helpers that the kernel lacks. Each is tried in a program of two
/// instructions.
///
/// # Errors
///
/// If this process must not load programs.
pub fn missing() -> Result<Vec<&'static str>, ProgramError> {
    let mut missing = Vec::new();
    for (helper, name) in HELPERS {
        if !is_helper_supported(ProgramType::Xdp, helper)? {
            missing.push(name);
        }
    }
    Ok(missing)
}
