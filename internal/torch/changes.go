package torch

// A release differs from the one before it in what is listed here; the packages that model the behaviour ask by name. To follow a new release, add its name in
// version.go and what it changed here.

// What the allocator does since a release.
var (
	// FreeBlocksByAge: among equal free blocks that of the oldest segment wins, before the lowest address.
	FreeBlocksByAge = Since(V2_13)
	// RoundedFraction: a memory fraction is rounded to bytes; before, it was truncated (setMemoryFraction).
	RoundedFraction = Since(V2_13)
	// PoolScopesRecover: a scope of a private pool may empty the cache unless a graph is being captured (pytorch pull request 175374).
	PoolScopesRecover = Since(V2_13)
	// ExpandableGraphPools: expandable segments serve private pools as well (is_expandable_segments_active).
	// https://github.com/pytorch/pytorch/blob/v2.5.0/c10/cuda/CUDACachingAllocator.cpp
	ExpandableGraphPools = Since(V2_5)
	// SplitAsksThePool: whether the rest of a block is kept depends on the pool's segments, not on the setting (should_split).
	// https://github.com/pytorch/pytorch/blob/v2.10.0/c10/cuda/CUDACachingAllocator.cpp
	SplitAsksThePool = Since(V2_10)
	// AlignedRounding: roundup_power2_divisions:1 keeps sizes aligned, and 0 turns an interval off (pytorch pull request 126830).
	AlignedRounding = Since(V2_4)
)

// What the reader of allocator settings does since a release.
var (
	// SegmentSizeFirst: large_segment_size_mb is read before all other keys. https://github.com/pytorch/pytorch/blob/v2.11.0/c10/core/AllocatorConfig.cpp
	SegmentSizeFirst = Since(V2_11)
	// SharedConfigReader: settings are read by c10/core/AllocatorConfig.cpp, which takes equal sizes where the older reader wanted larger ones and spares
	// the last boundary of a list before ">". https://github.com/pytorch/pytorch/blob/v2.10.0/c10/core/AllocatorConfig.cpp
	SharedConfigReader = Since(V2_10)
	// DivisionLists: roundup_power2_divisions takes a list of boundaries.
	DivisionLists = Since(V2_0)
	// NewVariableReaches: PYTORCH_ALLOC_CONF has its effect on CUDA; before, it is unknown or ignored (pytorch issue 183387).
	NewVariableReaches = Since(V2_11)
	// NewVariableAdvised: messages advise PYTORCH_ALLOC_CONF and call the older name deprecated.
	NewVariableAdvised = Span{V2_10, V2_10}
)

// What libraries below PyTorch do since a release.
var (
	// BlackwellWorkspace: cuBLAS' workspace is 32 MiB on SM 10 and 12 too (pytorch pull request 175344).
	BlackwellWorkspace = Since(V2_12)
	// CuDNNAttention: wheels bring a cuDNN newer than 9.15, which scaled_dot_product_attention tries first on SM 9.0, 10.0 and 10.3.
	// https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp
	CuDNNAttention = Since(V2_10)
	// LazyKernels: wheels are built with CUDA 11.7 or later, which loads kernels when they are first run; before, all of them lie on the card.
	// https://github.com/pytorch/pytorch/issues/107667
	LazyKernels = Since(V1_13)
)

// What a memory snapshot holds since a release; a file does not name its version.
var (
	SnapshotNamesCachedSizes = Since(V2_13)       // max_cached_size, max_round_threshold among the settings
	SnapshotNamesPools       = Span{V2_12, V2_12} // events name their pool; without the settings of 2.13
	SnapshotNamesStreamReuse = Span{V2_9, V2_12}  // graph_capture_record_stream_reuse
	SnapshotHasSettings      = Span{V2_3, V2_8}   // settings at all
	SnapshotHasNoSettings    = Span{Oldest, V2_2} //
)

// EnvVar is the environment variable to set for this version. Every version reads PYTORCH_CUDA_ALLOC_CONF; 2.8 and 2.9 announce PYTORCH_ALLOC_CONF but ignore
// expandable_segments in it (pytorch issue 183387); 2.10 reads both and calls the old name deprecated; 2.11 and later advise the old name again.
func (v Version) EnvVar() string {
	if NewVariableAdvised.Has(v) {
		return "PYTORCH_ALLOC_CONF"
	}
	return "PYTORCH_CUDA_ALLOC_CONF"
}

// AllocatorSettings are the keys of PYTORCH_CUDA_ALLOC_CONF and the releases that read them (CUDAAllocatorConfig::parseArgs up to 2.9,
// c10/core/AllocatorConfig.cpp from 2.10 on).
var AllocatorSettings = map[string]Span{
	"max_split_size_mb":                    Since(Oldest),
	"garbage_collection_threshold":         Since(Oldest),
	"roundup_power2_divisions":             Since(Oldest),
	"roundup_bypass_threshold_mb":          {V1_13, V1_13},
	"backend":                              Since(V2_0),
	"expandable_segments":                  Since(V2_1),
	"release_lock_on_cudamalloc":           Since(V2_2),
	"release_lock_on_hipmalloc":            Since(V2_2),
	"pinned_use_cuda_host_register":        Since(V2_2),
	"pinned_use_hip_host_register":         Since(V2_2),
	"pinned_num_register_threads":          Since(V2_2),
	"pinned_use_background_threads":        Since(V2_6),
	"pinned_reserve_segment_size_mb":       Since(V2_10),
	"pinned_max_round_threshold_mb":        Since(V2_13),
	"pinned_max_cached_size_mb":            Since(V2_13),
	"max_non_split_rounding_mb":            Since(V2_6),
	"graph_capture_record_stream_reuse":    Since(V2_9),
	"per_process_memory_fraction":          Since(V2_10),
	"large_segment_size_mb":                Since(V2_11),
	"throw_on_cudamalloc_oom":              Since(V2_12),
	"expandable_segments_reserve":          Since(V2_15),
	"expandable_segments_reserve_by_class": Since(V2_15),
}

// ExpandableSegments is the allocator setting worth trying before anything slower.
const ExpandableSegments = "expandable_segments:True"
