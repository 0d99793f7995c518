import type { ModuleReview } from "./review.ts";

/** Video and audio. */
export const videoAndAudio: readonly ModuleReview[] = [
  {
    module: "nodes_video",
    open: ["CreateVideo", "GetVideoComponents", "LoadVideo", "SaveVideo", "SaveWEBM", "Video Slice"],
  },
  {
    module: "nodes_audio",
    open: [
      "AudioAdjustVolume",
      "AudioConcat",
      "AudioEqualizer3Band",
      "AudioMerge",
      "ConditioningStableAudio",
      "EmptyAudio",
      "EmptyLatentAudio",
      "JoinAudioChannels",
      "LoadAudio",
      "PreviewAudio",
      "SaveAudio",
      "SaveAudioAdvanced",
      "SaveAudioMP3",
      "SaveAudioOpus",
      "SplitAudioChannels",
      "TrimAudioDuration",
      "VAEDecodeAudio",
      "VAEDecodeAudioTiled",
      "VAEEncodeAudio",
    ],
    closed: { RecordAudio: "reads_shared_files" },
  },
  { module: "nodes_audio_encoder", open: ["AudioEncoderEncode", "AudioEncoderLoader"] },
  { module: "nodes_frame_interpolation", open: ["FrameInterpolate", "FrameInterpolationModelLoader"] },
  {
    module: "nodes_wanmove",
    open: [
      "GenerateTracks",
      "WanMoveConcatTrack",
      "WanMoveTrackToVideo",
      "WanMoveTracksFromCoords",
      "WanMoveVisualizeTracks",
    ],
  },
  {
    module: "nodes_void",
    open: [
      "OpticalFlowLoader",
      "VOIDInpaintConditioning",
      "VOIDQuadmaskPreprocess",
      "VOIDSampler",
      "VOIDWarpedNoise",
      "VOIDWarpedNoiseSource",
    ],
  },
  { module: "nodes_camera_trajectory", open: ["WanCameraEmbedding"] },
  {
    module: "nodes_ace",
    open: [
      "EmptyAceStep1.5LatentAudio",
      "EmptyAceStepLatentAudio",
      "ReferenceTimbreAudio",
      "TextEncodeAceStepAudio",
      "TextEncodeAceStepAudio1.5",
    ],
  },
  { module: "nodes_minimax_music", open: ["EmptyMiniMaxMusic3LatentAudio", "MiniMaxMusic3TextEncode"] },
  {
    module: "nodes_lt_audio",
    open: [
      "LTXAVTextEncoderLoader",
      "LTXVAudioVAEDecode",
      "LTXVAudioVAEEncode",
      "LTXVAudioVAELoader",
      "LTXVEmptyLatentAudio",
    ],
  },
  {
    module: "nodes_video_model",
    open: [
      "ConditioningSetAreaPercentageVideo",
      "ImageOnlyCheckpointLoader",
      "SVD_img2vid_Conditioning",
      "VideoLinearCFGGuidance",
      "VideoTriangleCFGGuidance",
    ],
    closed: { ImageOnlyCheckpointSave: "writes_models" },
  },
  { module: "nodes_rebatch", open: ["RebatchImages", "RebatchLatents"] },
  {
    module: "nodes_minimax_h3",
    open: [
      "EmptyMiniMaxH3LatentAV",
      "MiniMaxH3AddGuide",
      "MiniMaxH3ImageToVideo",
      "MiniMaxH3ReferenceToVideo",
      "MiniMaxH3SigmaShift",
    ],
  },
  {
    module: "nodes_wandancer",
    open: ["WanDancerEncodeAudio", "WanDancerPadKeyframes", "WanDancerPadKeyframesList", "WanDancerVideo"],
  },
];
