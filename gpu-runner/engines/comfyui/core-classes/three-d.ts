import type { ModuleReview } from "./review.ts";

/** Meshes, point clouds and splats. */
export const threeD: readonly ModuleReview[] = [
  {
    module: "nodes_load_3d",
    open: ["Load3DAdvanced"],
    closed: {
      Load3D: "reads_shared_files",
      Preview3D: "saves_by_path",
      Preview3DAdvanced: "names_output_files",
      PreviewGaussianSplat: "names_output_files",
      PreviewPointCloud: "names_output_files",
    },
  },
  {
    module: "nodes_save_3d",
    open: ["GetMeshInfo", "MergeMeshes", "MeshToFile3D", "RotateMesh", "SaveGLB"],
    closed: {
      Save3DAdvanced: "names_output_files",
      SaveGaussianSplat: "names_output_files",
      SavePointCloud: "names_output_files",
    },
  },
  {
    module: "nodes_mesh_postprocess",
    open: [
      "ApplyTextureToMesh",
      "BakeAmbientOcclusion",
      "BakeNormalMapFromMesh",
      "BakeTextureFromVoxel",
      "DecimateMesh",
      "FillHoles",
      "MeshSmoothNormals",
      "MeshTextureToImage",
      "PaintMesh",
      "RemeshMesh",
      "RenderMesh",
      "RenderUVAtlas",
      "UnwrapMesh",
      "WeldVertices",
    ],
  },
  {
    module: "nodes_gaussian_splat",
    open: [
      "CreateCameraInfo",
      "File3DToSplat",
      "GetSplatCount",
      "MergeSplat",
      "RenderSplat",
      "SplatToFile3D",
      "SplatToMesh",
      "TransformSplat",
    ],
  },
  {
    module: "nodes_triposplat",
    open: ["TripoSplatConditioning", "TripoSplatPreprocessImage", "TripoSplatSamplingPreview", "VAEDecodeTripoSplat"],
  },
  {
    module: "nodes_trellis2",
    open: [
      "EmptyTrellis2LatentStructure",
      "Pixal3DConditioning",
      "Trellis2Conditioning",
      "Trellis2ShapeStage",
      "Trellis2TextureStage",
      "Trellis2UpsampleStage",
      "VaeDecodeShapeTrellis",
      "VaeDecodeStructureTrellis2",
      "VaeDecodeTextureTrellis",
    ],
  },
  {
    module: "nodes_hunyuan3d",
    open: [
      "EmptyLatentHunyuan3Dv2",
      "Hunyuan3Dv2Conditioning",
      "Hunyuan3Dv2ConditioningMultiView",
      "VAEDecodeHunyuan3D",
      "VoxelToMesh",
      "VoxelToMeshBasic",
    ],
  },
  {
    module: "nodes_stable3d",
    open: ["SV3D_Conditioning", "StableZero123_Conditioning", "StableZero123_Conditioning_Batched"],
  },
];
