/* SPDX-License-Identifier: Apache-2.0 */
/* X(name, id): names of the API calls that CUPTI reports, as cuptiGetCallbackName() of CUDA
 * 13.0U1 returns them. Ids are stable, but headers drop names (13.5 dropped 76). So the ids
 * stand here, checked against the headers of 13.0. */
#pragma once

/* clang-format off */
#define RUNTIME_CALLS(X) \
    X(cudaDriverGetVersion_v3020, 1) X(cudaRuntimeGetVersion_v3020, 2) \
    X(cudaGetDeviceCount_v3020, 3) X(cudaGetDeviceProperties_v3020, 4) \
    X(cudaChooseDevice_v3020, 5) X(cudaGetChannelDesc_v3020, 6) X(cudaCreateChannelDesc_v3020, 7) \
    X(cudaConfigureCall_v3020, 8) X(cudaSetupArgument_v3020, 9) X(cudaGetLastError_v3020, 10) \
    X(cudaPeekAtLastError_v3020, 11) X(cudaGetErrorString_v3020, 12) X(cudaLaunch_v3020, 13) \
    X(cudaFuncSetCacheConfig_v3020, 14) X(cudaFuncGetAttributes_v3020, 15) \
    X(cudaSetDevice_v3020, 16) X(cudaGetDevice_v3020, 17) X(cudaSetValidDevices_v3020, 18) \
    X(cudaSetDeviceFlags_v3020, 19) X(cudaMalloc_v3020, 20) X(cudaMallocPitch_v3020, 21) \
    X(cudaFree_v3020, 22) X(cudaMallocArray_v3020, 23) X(cudaFreeArray_v3020, 24) \
    X(cudaMallocHost_v3020, 25) X(cudaFreeHost_v3020, 26) X(cudaHostAlloc_v3020, 27) \
    X(cudaHostGetDevicePointer_v3020, 28) X(cudaHostGetFlags_v3020, 29) \
    X(cudaMemGetInfo_v3020, 30) X(cudaMemcpy_v3020, 31) X(cudaMemcpy2D_v3020, 32) \
    X(cudaMemcpyToArray_v3020, 33) X(cudaMemcpy2DToArray_v3020, 34) \
    X(cudaMemcpyFromArray_v3020, 35) X(cudaMemcpy2DFromArray_v3020, 36) \
    X(cudaMemcpyArrayToArray_v3020, 37) X(cudaMemcpy2DArrayToArray_v3020, 38) \
    X(cudaMemcpyToSymbol_v3020, 39) X(cudaMemcpyFromSymbol_v3020, 40) X(cudaMemcpyAsync_v3020, 41) \
    X(cudaMemcpyToArrayAsync_v3020, 42) X(cudaMemcpyFromArrayAsync_v3020, 43) \
    X(cudaMemcpy2DAsync_v3020, 44) X(cudaMemcpy2DToArrayAsync_v3020, 45) \
    X(cudaMemcpy2DFromArrayAsync_v3020, 46) X(cudaMemcpyToSymbolAsync_v3020, 47) \
    X(cudaMemcpyFromSymbolAsync_v3020, 48) X(cudaMemset_v3020, 49) X(cudaMemset2D_v3020, 50) \
    X(cudaMemsetAsync_v3020, 51) X(cudaMemset2DAsync_v3020, 52) X(cudaGetSymbolAddress_v3020, 53) \
    X(cudaGetSymbolSize_v3020, 54) X(cudaBindTexture_v3020, 55) X(cudaBindTexture2D_v3020, 56) \
    X(cudaBindTextureToArray_v3020, 57) X(cudaUnbindTexture_v3020, 58) \
    X(cudaGetTextureAlignmentOffset_v3020, 59) X(cudaGetTextureReference_v3020, 60) \
    X(cudaBindSurfaceToArray_v3020, 61) X(cudaGetSurfaceReference_v3020, 62) \
    X(cudaGLSetGLDevice_v3020, 63) X(cudaGLRegisterBufferObject_v3020, 64) \
    X(cudaGLMapBufferObject_v3020, 65) X(cudaGLUnmapBufferObject_v3020, 66) \
    X(cudaGLUnregisterBufferObject_v3020, 67) X(cudaGLSetBufferObjectMapFlags_v3020, 68) \
    X(cudaGLMapBufferObjectAsync_v3020, 69) X(cudaGLUnmapBufferObjectAsync_v3020, 70) \
    X(cudaWGLGetDevice_v3020, 71) X(cudaGraphicsGLRegisterImage_v3020, 72) \
    X(cudaGraphicsGLRegisterBuffer_v3020, 73) X(cudaGraphicsUnregisterResource_v3020, 74) \
    X(cudaGraphicsResourceSetMapFlags_v3020, 75) X(cudaGraphicsMapResources_v3020, 76) \
    X(cudaGraphicsUnmapResources_v3020, 77) X(cudaGraphicsResourceGetMappedPointer_v3020, 78) \
    X(cudaGraphicsSubResourceGetMappedArray_v3020, 79) X(cudaVDPAUGetDevice_v3020, 80) \
    X(cudaVDPAUSetVDPAUDevice_v3020, 81) X(cudaGraphicsVDPAURegisterVideoSurface_v3020, 82) \
    X(cudaGraphicsVDPAURegisterOutputSurface_v3020, 83) X(cudaD3D11GetDevice_v3020, 84) \
    X(cudaD3D11GetDevices_v3020, 85) X(cudaD3D11SetDirect3DDevice_v3020, 86) \
    X(cudaGraphicsD3D11RegisterResource_v3020, 87) X(cudaD3D10GetDevice_v3020, 88) \
    X(cudaD3D10GetDevices_v3020, 89) X(cudaD3D10SetDirect3DDevice_v3020, 90) \
    X(cudaGraphicsD3D10RegisterResource_v3020, 91) X(cudaD3D10RegisterResource_v3020, 92) \
    X(cudaD3D10UnregisterResource_v3020, 93) X(cudaD3D10MapResources_v3020, 94) \
    X(cudaD3D10UnmapResources_v3020, 95) X(cudaD3D10ResourceSetMapFlags_v3020, 96) \
    X(cudaD3D10ResourceGetSurfaceDimensions_v3020, 97) \
    X(cudaD3D10ResourceGetMappedArray_v3020, 98) X(cudaD3D10ResourceGetMappedPointer_v3020, 99) \
    X(cudaD3D10ResourceGetMappedSize_v3020, 100) X(cudaD3D10ResourceGetMappedPitch_v3020, 101) \
    X(cudaD3D9GetDevice_v3020, 102) X(cudaD3D9GetDevices_v3020, 103) \
    X(cudaD3D9SetDirect3DDevice_v3020, 104) X(cudaD3D9GetDirect3DDevice_v3020, 105) \
    X(cudaGraphicsD3D9RegisterResource_v3020, 106) X(cudaD3D9RegisterResource_v3020, 107) \
    X(cudaD3D9UnregisterResource_v3020, 108) X(cudaD3D9MapResources_v3020, 109) \
    X(cudaD3D9UnmapResources_v3020, 110) X(cudaD3D9ResourceSetMapFlags_v3020, 111) \
    X(cudaD3D9ResourceGetSurfaceDimensions_v3020, 112) \
    X(cudaD3D9ResourceGetMappedArray_v3020, 113) X(cudaD3D9ResourceGetMappedPointer_v3020, 114) \
    X(cudaD3D9ResourceGetMappedSize_v3020, 115) X(cudaD3D9ResourceGetMappedPitch_v3020, 116) \
    X(cudaD3D9Begin_v3020, 117) X(cudaD3D9End_v3020, 118) \
    X(cudaD3D9RegisterVertexBuffer_v3020, 119) X(cudaD3D9UnregisterVertexBuffer_v3020, 120) \
    X(cudaD3D9MapVertexBuffer_v3020, 121) X(cudaD3D9UnmapVertexBuffer_v3020, 122) \
    X(cudaThreadExit_v3020, 123) X(cudaSetDoubleForDevice_v3020, 124) \
    X(cudaSetDoubleForHost_v3020, 125) X(cudaThreadSynchronize_v3020, 126) \
    X(cudaThreadGetLimit_v3020, 127) X(cudaThreadSetLimit_v3020, 128) \
    X(cudaStreamCreate_v3020, 129) X(cudaStreamDestroy_v3020, 130) \
    X(cudaStreamSynchronize_v3020, 131) X(cudaStreamQuery_v3020, 132) \
    X(cudaEventCreate_v3020, 133) X(cudaEventCreateWithFlags_v3020, 134) \
    X(cudaEventRecord_v3020, 135) X(cudaEventDestroy_v3020, 136) \
    X(cudaEventSynchronize_v3020, 137) X(cudaEventQuery_v3020, 138) \
    X(cudaEventElapsedTime_v3020, 139) X(cudaMalloc3D_v3020, 140) X(cudaMalloc3DArray_v3020, 141) \
    X(cudaMemset3D_v3020, 142) X(cudaMemset3DAsync_v3020, 143) X(cudaMemcpy3D_v3020, 144) \
    X(cudaMemcpy3DAsync_v3020, 145) X(cudaThreadSetCacheConfig_v3020, 146) \
    X(cudaStreamWaitEvent_v3020, 147) X(cudaD3D11GetDirect3DDevice_v3020, 148) \
    X(cudaD3D10GetDirect3DDevice_v3020, 149) X(cudaThreadGetCacheConfig_v3020, 150) \
    X(cudaPointerGetAttributes_v4000, 151) X(cudaHostRegister_v4000, 152) \
    X(cudaHostUnregister_v4000, 153) X(cudaDeviceCanAccessPeer_v4000, 154) \
    X(cudaDeviceEnablePeerAccess_v4000, 155) X(cudaDeviceDisablePeerAccess_v4000, 156) \
    X(cudaPeerRegister_v4000, 157) X(cudaPeerUnregister_v4000, 158) \
    X(cudaPeerGetDevicePointer_v4000, 159) X(cudaMemcpyPeer_v4000, 160) \
    X(cudaMemcpyPeerAsync_v4000, 161) X(cudaMemcpy3DPeer_v4000, 162) \
    X(cudaMemcpy3DPeerAsync_v4000, 163) X(cudaDeviceReset_v3020, 164) \
    X(cudaDeviceSynchronize_v3020, 165) X(cudaDeviceGetLimit_v3020, 166) \
    X(cudaDeviceSetLimit_v3020, 167) X(cudaDeviceGetCacheConfig_v3020, 168) \
    X(cudaDeviceSetCacheConfig_v3020, 169) X(cudaProfilerInitialize_v4000, 170) \
    X(cudaProfilerStart_v4000, 171) X(cudaProfilerStop_v4000, 172) \
    X(cudaDeviceGetByPCIBusId_v4010, 173) X(cudaDeviceGetPCIBusId_v4010, 174) \
    X(cudaGLGetDevices_v4010, 175) X(cudaIpcGetEventHandle_v4010, 176) \
    X(cudaIpcOpenEventHandle_v4010, 177) X(cudaIpcGetMemHandle_v4010, 178) \
    X(cudaIpcOpenMemHandle_v4010, 179) X(cudaIpcCloseMemHandle_v4010, 180) \
    X(cudaArrayGetInfo_v4010, 181) X(cudaFuncSetSharedMemConfig_v4020, 182) \
    X(cudaDeviceGetSharedMemConfig_v4020, 183) X(cudaDeviceSetSharedMemConfig_v4020, 184) \
    X(cudaCreateTextureObject_v5000, 185) X(cudaDestroyTextureObject_v5000, 186) \
    X(cudaGetTextureObjectResourceDesc_v5000, 187) X(cudaGetTextureObjectTextureDesc_v5000, 188) \
    X(cudaCreateSurfaceObject_v5000, 189) X(cudaDestroySurfaceObject_v5000, 190) \
    X(cudaGetSurfaceObjectResourceDesc_v5000, 191) X(cudaMallocMipmappedArray_v5000, 192) \
    X(cudaGetMipmappedArrayLevel_v5000, 193) X(cudaFreeMipmappedArray_v5000, 194) \
    X(cudaBindTextureToMipmappedArray_v5000, 195) \
    X(cudaGraphicsResourceGetMappedMipmappedArray_v5000, 196) X(cudaStreamAddCallback_v5000, 197) \
    X(cudaStreamCreateWithFlags_v5000, 198) X(cudaGetTextureObjectResourceViewDesc_v5000, 199) \
    X(cudaDeviceGetAttribute_v5000, 200) X(cudaStreamDestroy_v5050, 201) \
    X(cudaStreamCreateWithPriority_v5050, 202) X(cudaStreamGetPriority_v5050, 203) \
    X(cudaStreamGetFlags_v5050, 204) X(cudaDeviceGetStreamPriorityRange_v5050, 205) \
    X(cudaMallocManaged_v6000, 206) X(cudaOccupancyMaxActiveBlocksPerMultiprocessor_v6000, 207) \
    X(cudaStreamAttachMemAsync_v6000, 208) X(cudaGetErrorName_v6050, 209) \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessor_v6050, 210) X(cudaLaunchKernel_v7000, 211) \
    X(cudaGetDeviceFlags_v7000, 212) X(cudaLaunch_ptsz_v7000, 213) \
    X(cudaLaunchKernel_ptsz_v7000, 214) X(cudaMemcpy_ptds_v7000, 215) \
    X(cudaMemcpy2D_ptds_v7000, 216) X(cudaMemcpyToArray_ptds_v7000, 217) \
    X(cudaMemcpy2DToArray_ptds_v7000, 218) X(cudaMemcpyFromArray_ptds_v7000, 219) \
    X(cudaMemcpy2DFromArray_ptds_v7000, 220) X(cudaMemcpyArrayToArray_ptds_v7000, 221) \
    X(cudaMemcpy2DArrayToArray_ptds_v7000, 222) X(cudaMemcpyToSymbol_ptds_v7000, 223) \
    X(cudaMemcpyFromSymbol_ptds_v7000, 224) X(cudaMemcpyAsync_ptsz_v7000, 225) \
    X(cudaMemcpyToArrayAsync_ptsz_v7000, 226) X(cudaMemcpyFromArrayAsync_ptsz_v7000, 227) \
    X(cudaMemcpy2DAsync_ptsz_v7000, 228) X(cudaMemcpy2DToArrayAsync_ptsz_v7000, 229) \
    X(cudaMemcpy2DFromArrayAsync_ptsz_v7000, 230) X(cudaMemcpyToSymbolAsync_ptsz_v7000, 231) \
    X(cudaMemcpyFromSymbolAsync_ptsz_v7000, 232) X(cudaMemset_ptds_v7000, 233) \
    X(cudaMemset2D_ptds_v7000, 234) X(cudaMemsetAsync_ptsz_v7000, 235) \
    X(cudaMemset2DAsync_ptsz_v7000, 236) X(cudaStreamGetPriority_ptsz_v7000, 237) \
    X(cudaStreamGetFlags_ptsz_v7000, 238) X(cudaStreamSynchronize_ptsz_v7000, 239) \
    X(cudaStreamQuery_ptsz_v7000, 240) X(cudaStreamAttachMemAsync_ptsz_v7000, 241) \
    X(cudaEventRecord_ptsz_v7000, 242) X(cudaMemset3D_ptds_v7000, 243) \
    X(cudaMemset3DAsync_ptsz_v7000, 244) X(cudaMemcpy3D_ptds_v7000, 245) \
    X(cudaMemcpy3DAsync_ptsz_v7000, 246) X(cudaStreamWaitEvent_ptsz_v7000, 247) \
    X(cudaStreamAddCallback_ptsz_v7000, 248) X(cudaMemcpy3DPeer_ptds_v7000, 249) \
    X(cudaMemcpy3DPeerAsync_ptsz_v7000, 250) \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_v7000, 251) \
    X(cudaMemPrefetchAsync_v8000, 252) X(cudaMemPrefetchAsync_ptsz_v8000, 253) \
    X(cudaMemAdvise_v8000, 254) X(cudaDeviceGetP2PAttribute_v8000, 255) \
    X(cudaGraphicsEGLRegisterImage_v7000, 256) X(cudaEGLStreamConsumerConnect_v7000, 257) \
    X(cudaEGLStreamConsumerDisconnect_v7000, 258) X(cudaEGLStreamConsumerAcquireFrame_v7000, 259) \
    X(cudaEGLStreamConsumerReleaseFrame_v7000, 260) X(cudaEGLStreamProducerConnect_v7000, 261) \
    X(cudaEGLStreamProducerDisconnect_v7000, 262) X(cudaEGLStreamProducerPresentFrame_v7000, 263) \
    X(cudaEGLStreamProducerReturnFrame_v7000, 264) \
    X(cudaGraphicsResourceGetMappedEglFrame_v7000, 265) X(cudaMemRangeGetAttribute_v8000, 266) \
    X(cudaMemRangeGetAttributes_v8000, 267) X(cudaEGLStreamConsumerConnectWithFlags_v7000, 268) \
    X(cudaLaunchCooperativeKernel_v9000, 269) X(cudaLaunchCooperativeKernel_ptsz_v9000, 270) \
    X(cudaEventCreateFromEGLSync_v9000, 271) X(cudaLaunchCooperativeKernelMultiDevice_v9000, 272) \
    X(cudaFuncSetAttribute_v9000, 273) X(cudaImportExternalMemory_v10000, 274) \
    X(cudaExternalMemoryGetMappedBuffer_v10000, 275) \
    X(cudaExternalMemoryGetMappedMipmappedArray_v10000, 276) \
    X(cudaDestroyExternalMemory_v10000, 277) X(cudaImportExternalSemaphore_v10000, 278) \
    X(cudaSignalExternalSemaphoresAsync_v10000, 279) \
    X(cudaSignalExternalSemaphoresAsync_ptsz_v10000, 280) \
    X(cudaWaitExternalSemaphoresAsync_v10000, 281) \
    X(cudaWaitExternalSemaphoresAsync_ptsz_v10000, 282) \
    X(cudaDestroyExternalSemaphore_v10000, 283) X(cudaLaunchHostFunc_v10000, 284) \
    X(cudaLaunchHostFunc_ptsz_v10000, 285) X(cudaGraphCreate_v10000, 286) \
    X(cudaGraphKernelNodeGetParams_v10000, 287) X(cudaGraphKernelNodeSetParams_v10000, 288) \
    X(cudaGraphAddKernelNode_v10000, 289) X(cudaGraphAddMemcpyNode_v10000, 290) \
    X(cudaGraphMemcpyNodeGetParams_v10000, 291) X(cudaGraphMemcpyNodeSetParams_v10000, 292) \
    X(cudaGraphAddMemsetNode_v10000, 293) X(cudaGraphMemsetNodeGetParams_v10000, 294) \
    X(cudaGraphMemsetNodeSetParams_v10000, 295) X(cudaGraphAddHostNode_v10000, 296) \
    X(cudaGraphHostNodeGetParams_v10000, 297) X(cudaGraphAddChildGraphNode_v10000, 298) \
    X(cudaGraphChildGraphNodeGetGraph_v10000, 299) X(cudaGraphAddEmptyNode_v10000, 300) \
    X(cudaGraphClone_v10000, 301) X(cudaGraphNodeFindInClone_v10000, 302) \
    X(cudaGraphNodeGetType_v10000, 303) X(cudaGraphGetRootNodes_v10000, 304) \
    X(cudaGraphNodeGetDependencies_v10000, 305) X(cudaGraphNodeGetDependentNodes_v10000, 306) \
    X(cudaGraphAddDependencies_v10000, 307) X(cudaGraphRemoveDependencies_v10000, 308) \
    X(cudaGraphDestroyNode_v10000, 309) X(cudaGraphInstantiate_v10000, 310) \
    X(cudaGraphLaunch_v10000, 311) X(cudaGraphLaunch_ptsz_v10000, 312) \
    X(cudaGraphExecDestroy_v10000, 313) X(cudaGraphDestroy_v10000, 314) \
    X(cudaStreamBeginCapture_v10000, 315) X(cudaStreamBeginCapture_ptsz_v10000, 316) \
    X(cudaStreamIsCapturing_v10000, 317) X(cudaStreamIsCapturing_ptsz_v10000, 318) \
    X(cudaStreamEndCapture_v10000, 319) X(cudaStreamEndCapture_ptsz_v10000, 320) \
    X(cudaGraphHostNodeSetParams_v10000, 321) X(cudaGraphGetNodes_v10000, 322) \
    X(cudaGraphGetEdges_v10000, 323) X(cudaStreamGetCaptureInfo_v10010, 324) \
    X(cudaStreamGetCaptureInfo_ptsz_v10010, 325) X(cudaGraphExecKernelNodeSetParams_v10010, 326) \
    X(cudaThreadExchangeStreamCaptureMode_v10010, 327) \
    X(cudaDeviceGetNvSciSyncAttributes_v10020, 328) \
    X(cudaOccupancyAvailableDynamicSMemPerBlock_v10200, 329) X(cudaStreamSetFlags_v10200, 330) \
    X(cudaStreamSetFlags_ptsz_v10200, 331) X(cudaGraphExecMemcpyNodeSetParams_v10020, 332) \
    X(cudaGraphExecMemsetNodeSetParams_v10020, 333) X(cudaGraphExecHostNodeSetParams_v10020, 334) \
    X(cudaGraphExecUpdate_v10020, 335) X(cudaGetFuncBySymbol_v11000, 336) \
    X(cudaCtxResetPersistingL2Cache_v11000, 337) X(cudaGraphKernelNodeCopyAttributes_v11000, 338) \
    X(cudaGraphKernelNodeGetAttribute_v11000, 339) X(cudaGraphKernelNodeSetAttribute_v11000, 340) \
    X(cudaStreamCopyAttributes_v11000, 341) X(cudaStreamCopyAttributes_ptsz_v11000, 342) \
    X(cudaStreamGetAttribute_v11000, 343) X(cudaStreamGetAttribute_ptsz_v11000, 344) \
    X(cudaStreamSetAttribute_v11000, 345) X(cudaStreamSetAttribute_ptsz_v11000, 346) \
    X(cudaDeviceGetTexture1DLinearMaxWidth_v11010, 347) X(cudaGraphUpload_v10000, 348) \
    X(cudaGraphUpload_ptsz_v10000, 349) X(cudaGraphAddMemcpyNodeToSymbol_v11010, 350) \
    X(cudaGraphAddMemcpyNodeFromSymbol_v11010, 351) X(cudaGraphAddMemcpyNode1D_v11010, 352) \
    X(cudaGraphMemcpyNodeSetParamsToSymbol_v11010, 353) \
    X(cudaGraphMemcpyNodeSetParamsFromSymbol_v11010, 354) \
    X(cudaGraphMemcpyNodeSetParams1D_v11010, 355) \
    X(cudaGraphExecMemcpyNodeSetParamsToSymbol_v11010, 356) \
    X(cudaGraphExecMemcpyNodeSetParamsFromSymbol_v11010, 357) \
    X(cudaGraphExecMemcpyNodeSetParams1D_v11010, 358) X(cudaArrayGetSparseProperties_v11010, 359) \
    X(cudaMipmappedArrayGetSparseProperties_v11010, 360) \
    X(cudaGraphExecChildGraphNodeSetParams_v11010, 361) X(cudaGraphAddEventRecordNode_v11010, 362) \
    X(cudaGraphEventRecordNodeGetEvent_v11010, 363) \
    X(cudaGraphEventRecordNodeSetEvent_v11010, 364) X(cudaGraphAddEventWaitNode_v11010, 365) \
    X(cudaGraphEventWaitNodeGetEvent_v11010, 366) X(cudaGraphEventWaitNodeSetEvent_v11010, 367) \
    X(cudaGraphExecEventRecordNodeSetEvent_v11010, 368) \
    X(cudaGraphExecEventWaitNodeSetEvent_v11010, 369) X(cudaEventRecordWithFlags_v11010, 370) \
    X(cudaEventRecordWithFlags_ptsz_v11010, 371) X(cudaDeviceGetDefaultMemPool_v11020, 372) \
    X(cudaMallocAsync_v11020, 373) X(cudaMallocAsync_ptsz_v11020, 374) \
    X(cudaFreeAsync_v11020, 375) X(cudaFreeAsync_ptsz_v11020, 376) \
    X(cudaMemPoolTrimTo_v11020, 377) X(cudaMemPoolSetAttribute_v11020, 378) \
    X(cudaMemPoolGetAttribute_v11020, 379) X(cudaMemPoolSetAccess_v11020, 380) \
    X(cudaArrayGetPlane_v11020, 381) X(cudaMemPoolGetAccess_v11020, 382) \
    X(cudaMemPoolCreate_v11020, 383) X(cudaMemPoolDestroy_v11020, 384) \
    X(cudaDeviceSetMemPool_v11020, 385) X(cudaDeviceGetMemPool_v11020, 386) \
    X(cudaMemPoolExportToShareableHandle_v11020, 387) \
    X(cudaMemPoolImportFromShareableHandle_v11020, 388) X(cudaMemPoolExportPointer_v11020, 389) \
    X(cudaMemPoolImportPointer_v11020, 390) X(cudaMallocFromPoolAsync_v11020, 391) \
    X(cudaMallocFromPoolAsync_ptsz_v11020, 392) X(cudaSignalExternalSemaphoresAsync_v11020, 393) \
    X(cudaSignalExternalSemaphoresAsync_ptsz_v11020, 394) \
    X(cudaWaitExternalSemaphoresAsync_v11020, 395) \
    X(cudaWaitExternalSemaphoresAsync_ptsz_v11020, 396) \
    X(cudaGraphAddExternalSemaphoresSignalNode_v11020, 397) \
    X(cudaGraphExternalSemaphoresSignalNodeGetParams_v11020, 398) \
    X(cudaGraphExternalSemaphoresSignalNodeSetParams_v11020, 399) \
    X(cudaGraphAddExternalSemaphoresWaitNode_v11020, 400) \
    X(cudaGraphExternalSemaphoresWaitNodeGetParams_v11020, 401) \
    X(cudaGraphExternalSemaphoresWaitNodeSetParams_v11020, 402) \
    X(cudaGraphExecExternalSemaphoresSignalNodeSetParams_v11020, 403) \
    X(cudaGraphExecExternalSemaphoresWaitNodeSetParams_v11020, 404) \
    X(cudaDeviceFlushGPUDirectRDMAWrites_v11030, 405) X(cudaGetDriverEntryPoint_v11030, 406) \
    X(cudaGetDriverEntryPoint_ptsz_v11030, 407) X(cudaGraphDebugDotPrint_v11030, 408) \
    X(cudaStreamGetCaptureInfo_v2_v11030, 409) X(cudaStreamGetCaptureInfo_v2_ptsz_v11030, 410) \
    X(cudaStreamUpdateCaptureDependencies_v11030, 411) \
    X(cudaStreamUpdateCaptureDependencies_ptsz_v11030, 412) X(cudaUserObjectCreate_v11030, 413) \
    X(cudaUserObjectRetain_v11030, 414) X(cudaUserObjectRelease_v11030, 415) \
    X(cudaGraphRetainUserObject_v11030, 416) X(cudaGraphReleaseUserObject_v11030, 417) \
    X(cudaGraphInstantiateWithFlags_v11040, 418) X(cudaGraphAddMemAllocNode_v11040, 419) \
    X(cudaGraphMemAllocNodeGetParams_v11040, 420) X(cudaGraphAddMemFreeNode_v11040, 421) \
    X(cudaGraphMemFreeNodeGetParams_v11040, 422) X(cudaDeviceGraphMemTrim_v11040, 423) \
    X(cudaDeviceGetGraphMemAttribute_v11040, 424) X(cudaDeviceSetGraphMemAttribute_v11040, 425) \
    X(cudaGraphNodeSetEnabled_v11060, 426) X(cudaGraphNodeGetEnabled_v11060, 427) \
    X(cudaArrayGetMemoryRequirements_v11060, 428) \
    X(cudaMipmappedArrayGetMemoryRequirements_v11060, 429) X(cudaLaunchKernelExC_v11060, 430) \
    X(cudaLaunchKernelExC_ptsz_v11060, 431) X(cudaOccupancyMaxPotentialClusterSize_v11070, 432) \
    X(cudaOccupancyMaxActiveClusters_v11070, 433) X(cudaCreateTextureObject_v2_v11080, 434) \
    X(cudaGetTextureObjectTextureDesc_v2_v11080, 435) \
    X(cudaGraphInstantiateWithParams_v12000, 436) \
    X(cudaGraphInstantiateWithParams_ptsz_v12000, 437) X(cudaGraphExecGetFlags_v12000, 438) \
    X(cudaGetKernel_v12000, 439) X(cudaGetDeviceProperties_v12000, 440) \
    X(cudaStreamGetId_v12000, 441) X(cudaStreamGetId_ptsz_v12000, 442) \
    X(cudaGraphInstantiate_v12000, 443) X(cudaInitDevice_v12000, 444) \
    X(cudaGraphAddNode_v12020, 445) X(cudaGraphNodeSetParams_v12020, 446) \
    X(cudaGraphExecNodeSetParams_v12020, 447) X(cudaMemAdvise_v12020, 448) \
    X(cudaMemPrefetchAsync_v12020, 449) X(cudaMemPrefetchAsync_ptsz_v12020, 450) \
    X(cudaFuncGetName_v12030, 451) X(cudaStreamBeginCaptureToGraph_v12030, 452) \
    X(cudaStreamBeginCaptureToGraph_ptsz_v12030, 453) \
    X(cudaGraphConditionalHandleCreate_v12030, 454) X(cudaGraphGetEdges_v12030, 455) \
    X(cudaGraphNodeGetDependencies_v12030, 456) X(cudaGraphNodeGetDependentNodes_v12030, 457) \
    X(cudaGraphAddDependencies_v12030, 458) X(cudaGraphRemoveDependencies_v12030, 459) \
    X(cudaGraphAddNode_v12030, 460) X(cudaStreamGetCaptureInfo_v12030, 461) \
    X(cudaStreamGetCaptureInfo_ptsz_v12030, 462) \
    X(cudaStreamUpdateCaptureDependencies_v12030, 463) \
    X(cudaStreamUpdateCaptureDependencies_ptsz_v12030, 464) \
    X(cudaDeviceRegisterAsyncNotification_v12040, 465) \
    X(cudaDeviceUnregisterAsyncNotification_v12040, 466) X(cudaFuncGetParamInfo_v12040, 467) \
    X(cudaGetDriverEntryPointByVersion_v12050, 468) \
    X(cudaGetDriverEntryPointByVersion_ptsz_v12050, 469) X(cudaLibraryLoadData_v12060, 470) \
    X(cudaLibraryLoadFromFile_v12060, 471) X(cudaLibraryUnload_v12060, 472) \
    X(cudaLibraryGetKernel_v12060, 473) X(cudaLibraryGetGlobal_v12060, 474) \
    X(cudaLibraryGetManaged_v12060, 475) X(cudaLibraryGetUnifiedFunction_v12060, 476) \
    X(cudaLibraryGetKernelCount_v12060, 477) X(cudaLibraryEnumerateKernels_v12060, 478) \
    X(cudaKernelSetAttributeForDevice_v12060, 479) X(cudaStreamGetDevice_v12080, 480) \
    X(cudaStreamGetDevice_ptsz_v12080, 481) X(cudaMemcpyBatchAsync_v12080, 482) \
    X(cudaMemcpyBatchAsync_ptsz_v12080, 483) X(cudaMemcpy3DBatchAsync_v12080, 484) \
    X(cudaMemcpy3DBatchAsync_ptsz_v12080, 485) X(cudaEventElapsedTime_v12080, 486) \
    X(cudaMemPrefetchBatchAsync_v13000, 487) X(cudaMemPrefetchBatchAsync_ptsz_v13000, 488) \
    X(cudaMemDiscardBatchAsync_v13000, 489) X(cudaMemDiscardBatchAsync_ptsz_v13000, 490) \
    X(cudaMemDiscardAndPrefetchBatchAsync_v13000, 491) \
    X(cudaMemDiscardAndPrefetchBatchAsync_ptsz_v13000, 492) X(cudaGetExportTable_v13000, 493) \
    X(__cudaRegisterFatBinary_v13000, 494) X(__cudaRegisterFatBinaryEnd_v13000, 495) \
    X(__cudaUnregisterFatBinary_v13000, 496) X(__cudaRegisterVar_v13000, 497) \
    X(__cudaRegisterHostVar_v13000, 498) X(__cudaRegisterFunction_v13000, 499) \
    X(__cudaRegisterManagedVar_v13000, 500) X(__cudaInitModule_v13000, 501) \
    X(__cudaPushCallConfiguration_v13000, 502) X(__cudaPopCallConfiguration_v13000, 503) \
    X(__cudaGetKernel_v13000, 504) X(__cudaLaunchKernel_v13000, 505) \
    X(__cudaLaunchKernel_ptsz_v13000, 506) X(__cudaRegisterUnifiedTable_v13000, 507) \
    X(__cudaGetProcAddress_v13000, 508) X(cudaMemcpyBatchAsync_v13000, 509) \
    X(cudaMemcpyBatchAsync_ptsz_v13000, 510) X(cudaMemcpy3DBatchAsync_v13000, 511) \
    X(cudaMemcpy3DBatchAsync_ptsz_v13000, 512) X(cudaLogsRegisterCallback_v13000, 513) \
    X(cudaLogsUnregisterCallback_v13000, 514) X(cudaLogsCurrent_v13000, 515) \
    X(cudaLogsDumpToFile_v13000, 516) X(cudaLogsDumpToMemory_v13000, 517) \
    X(cudaMemGetDefaultMemPool_v13000, 518) X(cudaMemGetMemPool_v13000, 519) \
    X(cudaMemSetMemPool_v13000, 520) X(cudaDeviceGetHostAtomicCapabilities_v13000, 521) \
    X(cudaDeviceGetP2PAtomicCapabilities_v13000, 522)

#define DRIVER_CALLS(X) \
    X(cuInit, 1) X(cuDriverGetVersion, 2) X(cuDeviceGet, 3) X(cuDeviceGetCount, 4) \
    X(cuDeviceGetName, 5) X(cuDeviceComputeCapability, 6) X(cuDeviceTotalMem, 7) \
    X(cuDeviceGetProperties, 8) X(cuDeviceGetAttribute, 9) X(cuCtxCreate, 10) X(cuCtxDestroy, 11) \
    X(cuCtxAttach, 12) X(cuCtxDetach, 13) X(cuCtxPushCurrent, 14) X(cuCtxPopCurrent, 15) \
    X(cuCtxGetDevice, 16) X(cuCtxSynchronize, 17) X(cuModuleLoad, 18) X(cuModuleLoadData, 19) \
    X(cuModuleLoadDataEx, 20) X(cuModuleLoadFatBinary, 21) X(cuModuleUnload, 22) \
    X(cuModuleGetFunction, 23) X(cuModuleGetGlobal, 24) X(cu64ModuleGetGlobal, 25) \
    X(cuModuleGetTexRef, 26) X(cuMemGetInfo, 27) X(cu64MemGetInfo, 28) X(cuMemAlloc, 29) \
    X(cu64MemAlloc, 30) X(cuMemAllocPitch, 31) X(cu64MemAllocPitch, 32) X(cuMemFree, 33) \
    X(cu64MemFree, 34) X(cuMemGetAddressRange, 35) X(cu64MemGetAddressRange, 36) \
    X(cuMemAllocHost, 37) X(cuMemFreeHost, 38) X(cuMemHostAlloc, 39) \
    X(cuMemHostGetDevicePointer, 40) X(cu64MemHostGetDevicePointer, 41) X(cuMemHostGetFlags, 42) \
    X(cuMemcpyHtoD, 43) X(cu64MemcpyHtoD, 44) X(cuMemcpyDtoH, 45) X(cu64MemcpyDtoH, 46) \
    X(cuMemcpyDtoD, 47) X(cu64MemcpyDtoD, 48) X(cuMemcpyDtoA, 49) X(cu64MemcpyDtoA, 50) \
    X(cuMemcpyAtoD, 51) X(cu64MemcpyAtoD, 52) X(cuMemcpyHtoA, 53) X(cuMemcpyAtoH, 54) \
    X(cuMemcpyAtoA, 55) X(cuMemcpy2D, 56) X(cuMemcpy2DUnaligned, 57) X(cuMemcpy3D, 58) \
    X(cu64Memcpy3D, 59) X(cuMemcpyHtoDAsync, 60) X(cu64MemcpyHtoDAsync, 61) \
    X(cuMemcpyDtoHAsync, 62) X(cu64MemcpyDtoHAsync, 63) X(cuMemcpyDtoDAsync, 64) \
    X(cu64MemcpyDtoDAsync, 65) X(cuMemcpyHtoAAsync, 66) X(cuMemcpyAtoHAsync, 67) \
    X(cuMemcpy2DAsync, 68) X(cuMemcpy3DAsync, 69) X(cu64Memcpy3DAsync, 70) X(cuMemsetD8, 71) \
    X(cu64MemsetD8, 72) X(cuMemsetD16, 73) X(cu64MemsetD16, 74) X(cuMemsetD32, 75) \
    X(cu64MemsetD32, 76) X(cuMemsetD2D8, 77) X(cu64MemsetD2D8, 78) X(cuMemsetD2D16, 79) \
    X(cu64MemsetD2D16, 80) X(cuMemsetD2D32, 81) X(cu64MemsetD2D32, 82) X(cuFuncSetBlockShape, 83) \
    X(cuFuncSetSharedSize, 84) X(cuFuncGetAttribute, 85) X(cuFuncSetCacheConfig, 86) \
    X(cuArrayCreate, 87) X(cuArrayGetDescriptor, 88) X(cuArrayDestroy, 89) X(cuArray3DCreate, 90) \
    X(cuArray3DGetDescriptor, 91) X(cuTexRefCreate, 92) X(cuTexRefDestroy, 93) \
    X(cuTexRefSetArray, 94) X(cuTexRefSetAddress, 95) X(cu64TexRefSetAddress, 96) \
    X(cuTexRefSetAddress2D, 97) X(cu64TexRefSetAddress2D, 98) X(cuTexRefSetFormat, 99) \
    X(cuTexRefSetAddressMode, 100) X(cuTexRefSetFilterMode, 101) X(cuTexRefSetFlags, 102) \
    X(cuTexRefGetAddress, 103) X(cu64TexRefGetAddress, 104) X(cuTexRefGetArray, 105) \
    X(cuTexRefGetAddressMode, 106) X(cuTexRefGetFilterMode, 107) X(cuTexRefGetFormat, 108) \
    X(cuTexRefGetFlags, 109) X(cuParamSetSize, 110) X(cuParamSeti, 111) X(cuParamSetf, 112) \
    X(cuParamSetv, 113) X(cuParamSetTexRef, 114) X(cuLaunch, 115) X(cuLaunchGrid, 116) \
    X(cuLaunchGridAsync, 117) X(cuEventCreate, 118) X(cuEventRecord, 119) X(cuEventQuery, 120) \
    X(cuEventSynchronize, 121) X(cuEventDestroy, 122) X(cuEventElapsedTime, 123) \
    X(cuStreamCreate, 124) X(cuStreamQuery, 125) X(cuStreamSynchronize, 126) \
    X(cuStreamDestroy, 127) X(cuGraphicsUnregisterResource, 128) \
    X(cuGraphicsSubResourceGetMappedArray, 129) X(cuGraphicsResourceGetMappedPointer, 130) \
    X(cu64GraphicsResourceGetMappedPointer, 131) X(cuGraphicsResourceSetMapFlags, 132) \
    X(cuGraphicsMapResources, 133) X(cuGraphicsUnmapResources, 134) X(cuGetExportTable, 135) \
    X(cuCtxSetLimit, 136) X(cuCtxGetLimit, 137) X(cuD3D10GetDevice, 138) X(cuD3D10CtxCreate, 139) \
    X(cuGraphicsD3D10RegisterResource, 140) X(cuD3D10RegisterResource, 141) \
    X(cuD3D10UnregisterResource, 142) X(cuD3D10MapResources, 143) X(cuD3D10UnmapResources, 144) \
    X(cuD3D10ResourceSetMapFlags, 145) X(cuD3D10ResourceGetMappedArray, 146) \
    X(cuD3D10ResourceGetMappedPointer, 147) X(cuD3D10ResourceGetMappedSize, 148) \
    X(cuD3D10ResourceGetMappedPitch, 149) X(cuD3D10ResourceGetSurfaceDimensions, 150) \
    X(cuD3D11GetDevice, 151) X(cuD3D11CtxCreate, 152) X(cuGraphicsD3D11RegisterResource, 153) \
    X(cuD3D9GetDevice, 154) X(cuD3D9CtxCreate, 155) X(cuGraphicsD3D9RegisterResource, 156) \
    X(cuD3D9GetDirect3DDevice, 157) X(cuD3D9RegisterResource, 158) \
    X(cuD3D9UnregisterResource, 159) X(cuD3D9MapResources, 160) X(cuD3D9UnmapResources, 161) \
    X(cuD3D9ResourceSetMapFlags, 162) X(cuD3D9ResourceGetSurfaceDimensions, 163) \
    X(cuD3D9ResourceGetMappedArray, 164) X(cuD3D9ResourceGetMappedPointer, 165) \
    X(cuD3D9ResourceGetMappedSize, 166) X(cuD3D9ResourceGetMappedPitch, 167) X(cuD3D9Begin, 168) \
    X(cuD3D9End, 169) X(cuD3D9RegisterVertexBuffer, 170) X(cuD3D9MapVertexBuffer, 171) \
    X(cuD3D9UnmapVertexBuffer, 172) X(cuD3D9UnregisterVertexBuffer, 173) X(cuGLCtxCreate, 174) \
    X(cuGraphicsGLRegisterBuffer, 175) X(cuGraphicsGLRegisterImage, 176) X(cuWGLGetDevice, 177) \
    X(cuGLInit, 178) X(cuGLRegisterBufferObject, 179) X(cuGLMapBufferObject, 180) \
    X(cuGLUnmapBufferObject, 181) X(cuGLUnregisterBufferObject, 182) \
    X(cuGLSetBufferObjectMapFlags, 183) X(cuGLMapBufferObjectAsync, 184) \
    X(cuGLUnmapBufferObjectAsync, 185) X(cuVDPAUGetDevice, 186) X(cuVDPAUCtxCreate, 187) \
    X(cuGraphicsVDPAURegisterVideoSurface, 188) X(cuGraphicsVDPAURegisterOutputSurface, 189) \
    X(cuModuleGetSurfRef, 190) X(cuSurfRefCreate, 191) X(cuSurfRefDestroy, 192) \
    X(cuSurfRefSetFormat, 193) X(cuSurfRefSetArray, 194) X(cuSurfRefGetFormat, 195) \
    X(cuSurfRefGetArray, 196) X(cu64DeviceTotalMem, 197) X(cu64D3D10ResourceGetMappedPointer, 198) \
    X(cu64D3D10ResourceGetMappedSize, 199) X(cu64D3D10ResourceGetMappedPitch, 200) \
    X(cu64D3D10ResourceGetSurfaceDimensions, 201) X(cu64D3D9ResourceGetSurfaceDimensions, 202) \
    X(cu64D3D9ResourceGetMappedPointer, 203) X(cu64D3D9ResourceGetMappedSize, 204) \
    X(cu64D3D9ResourceGetMappedPitch, 205) X(cu64D3D9MapVertexBuffer, 206) \
    X(cu64GLMapBufferObject, 207) X(cu64GLMapBufferObjectAsync, 208) X(cuD3D11GetDevices, 209) \
    X(cuD3D11CtxCreateOnDevice, 210) X(cuD3D10GetDevices, 211) X(cuD3D10CtxCreateOnDevice, 212) \
    X(cuD3D9GetDevices, 213) X(cuD3D9CtxCreateOnDevice, 214) X(cu64MemHostAlloc, 215) \
    X(cuMemsetD8Async, 216) X(cu64MemsetD8Async, 217) X(cuMemsetD16Async, 218) \
    X(cu64MemsetD16Async, 219) X(cuMemsetD32Async, 220) X(cu64MemsetD32Async, 221) \
    X(cuMemsetD2D8Async, 222) X(cu64MemsetD2D8Async, 223) X(cuMemsetD2D16Async, 224) \
    X(cu64MemsetD2D16Async, 225) X(cuMemsetD2D32Async, 226) X(cu64MemsetD2D32Async, 227) \
    X(cu64ArrayCreate, 228) X(cu64ArrayGetDescriptor, 229) X(cu64Array3DCreate, 230) \
    X(cu64Array3DGetDescriptor, 231) X(cu64Memcpy2D, 232) X(cu64Memcpy2DUnaligned, 233) \
    X(cu64Memcpy2DAsync, 234) X(cuCtxCreate_v2, 235) X(cuD3D10CtxCreate_v2, 236) \
    X(cuD3D11CtxCreate_v2, 237) X(cuD3D9CtxCreate_v2, 238) X(cuGLCtxCreate_v2, 239) \
    X(cuVDPAUCtxCreate_v2, 240) X(cuModuleGetGlobal_v2, 241) X(cuMemGetInfo_v2, 242) \
    X(cuMemAlloc_v2, 243) X(cuMemAllocPitch_v2, 244) X(cuMemFree_v2, 245) \
    X(cuMemGetAddressRange_v2, 246) X(cuMemHostGetDevicePointer_v2, 247) X(cuMemcpy_v2, 248) \
    X(cuMemsetD8_v2, 249) X(cuMemsetD16_v2, 250) X(cuMemsetD32_v2, 251) X(cuMemsetD2D8_v2, 252) \
    X(cuMemsetD2D16_v2, 253) X(cuMemsetD2D32_v2, 254) X(cuTexRefSetAddress_v2, 255) \
    X(cuTexRefSetAddress2D_v2, 256) X(cuTexRefGetAddress_v2, 257) \
    X(cuGraphicsResourceGetMappedPointer_v2, 258) X(cuDeviceTotalMem_v2, 259) \
    X(cuD3D10ResourceGetMappedPointer_v2, 260) X(cuD3D10ResourceGetMappedSize_v2, 261) \
    X(cuD3D10ResourceGetMappedPitch_v2, 262) X(cuD3D10ResourceGetSurfaceDimensions_v2, 263) \
    X(cuD3D9ResourceGetSurfaceDimensions_v2, 264) X(cuD3D9ResourceGetMappedPointer_v2, 265) \
    X(cuD3D9ResourceGetMappedSize_v2, 266) X(cuD3D9ResourceGetMappedPitch_v2, 267) \
    X(cuD3D9MapVertexBuffer_v2, 268) X(cuGLMapBufferObject_v2, 269) \
    X(cuGLMapBufferObjectAsync_v2, 270) X(cuMemHostAlloc_v2, 271) X(cuArrayCreate_v2, 272) \
    X(cuArrayGetDescriptor_v2, 273) X(cuArray3DCreate_v2, 274) X(cuArray3DGetDescriptor_v2, 275) \
    X(cuMemcpyHtoD_v2, 276) X(cuMemcpyHtoDAsync_v2, 277) X(cuMemcpyDtoH_v2, 278) \
    X(cuMemcpyDtoHAsync_v2, 279) X(cuMemcpyDtoD_v2, 280) X(cuMemcpyDtoDAsync_v2, 281) \
    X(cuMemcpyAtoH_v2, 282) X(cuMemcpyAtoHAsync_v2, 283) X(cuMemcpyAtoD_v2, 284) \
    X(cuMemcpyDtoA_v2, 285) X(cuMemcpyAtoA_v2, 286) X(cuMemcpy2D_v2, 287) \
    X(cuMemcpy2DUnaligned_v2, 288) X(cuMemcpy2DAsync_v2, 289) X(cuMemcpy3D_v2, 290) \
    X(cuMemcpy3DAsync_v2, 291) X(cuMemcpyHtoA_v2, 292) X(cuMemcpyHtoAAsync_v2, 293) \
    X(cuMemAllocHost_v2, 294) X(cuStreamWaitEvent, 295) X(cuCtxGetApiVersion, 296) \
    X(cuD3D10GetDirect3DDevice, 297) X(cuD3D11GetDirect3DDevice, 298) X(cuCtxGetCacheConfig, 299) \
    X(cuCtxSetCacheConfig, 300) X(cuMemHostRegister, 301) X(cuMemHostUnregister, 302) \
    X(cuCtxSetCurrent, 303) X(cuCtxGetCurrent, 304) X(cuMemcpy, 305) X(cuMemcpyAsync, 306) \
    X(cuLaunchKernel, 307) X(cuProfilerStart, 308) X(cuProfilerStop, 309) \
    X(cuPointerGetAttribute, 310) X(cuProfilerInitialize, 311) X(cuDeviceCanAccessPeer, 312) \
    X(cuCtxEnablePeerAccess, 313) X(cuCtxDisablePeerAccess, 314) X(cuMemPeerRegister, 315) \
    X(cuMemPeerUnregister, 316) X(cuMemPeerGetDevicePointer, 317) X(cuMemcpyPeer, 318) \
    X(cuMemcpyPeerAsync, 319) X(cuMemcpy3DPeer, 320) X(cuMemcpy3DPeerAsync, 321) \
    X(cuCtxDestroy_v2, 322) X(cuCtxPushCurrent_v2, 323) X(cuCtxPopCurrent_v2, 324) \
    X(cuEventDestroy_v2, 325) X(cuStreamDestroy_v2, 326) X(cuTexRefSetAddress2D_v3, 327) \
    X(cuIpcGetMemHandle, 328) X(cuIpcOpenMemHandle, 329) X(cuIpcCloseMemHandle, 330) \
    X(cuDeviceGetByPCIBusId, 331) X(cuDeviceGetPCIBusId, 332) X(cuGLGetDevices, 333) \
    X(cuIpcGetEventHandle, 334) X(cuIpcOpenEventHandle, 335) X(cuCtxSetSharedMemConfig, 336) \
    X(cuCtxGetSharedMemConfig, 337) X(cuFuncSetSharedMemConfig, 338) X(cuTexObjectCreate, 339) \
    X(cuTexObjectDestroy, 340) X(cuTexObjectGetResourceDesc, 341) \
    X(cuTexObjectGetTextureDesc, 342) X(cuSurfObjectCreate, 343) X(cuSurfObjectDestroy, 344) \
    X(cuSurfObjectGetResourceDesc, 345) X(cuStreamAddCallback, 346) X(cuMipmappedArrayCreate, 347) \
    X(cuMipmappedArrayGetLevel, 348) X(cuMipmappedArrayDestroy, 349) \
    X(cuTexRefSetMipmappedArray, 350) X(cuTexRefSetMipmapFilterMode, 351) \
    X(cuTexRefSetMipmapLevelBias, 352) X(cuTexRefSetMipmapLevelClamp, 353) \
    X(cuTexRefSetMaxAnisotropy, 354) X(cuTexRefGetMipmappedArray, 355) \
    X(cuTexRefGetMipmapFilterMode, 356) X(cuTexRefGetMipmapLevelBias, 357) \
    X(cuTexRefGetMipmapLevelClamp, 358) X(cuTexRefGetMaxAnisotropy, 359) \
    X(cuGraphicsResourceGetMappedMipmappedArray, 360) X(cuTexObjectGetResourceViewDesc, 361) \
    X(cuLinkCreate, 362) X(cuLinkAddData, 363) X(cuLinkAddFile, 364) X(cuLinkComplete, 365) \
    X(cuLinkDestroy, 366) X(cuStreamCreateWithPriority, 367) X(cuStreamGetPriority, 368) \
    X(cuStreamGetFlags, 369) X(cuCtxGetStreamPriorityRange, 370) X(cuMemAllocManaged, 371) \
    X(cuGetErrorString, 372) X(cuGetErrorName, 373) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 374) X(cuCompilePtx, 375) X(cuBinaryFree, 376) \
    X(cuStreamAttachMemAsync, 377) X(cuPointerSetAttribute, 378) X(cuMemHostRegister_v2, 379) \
    X(cuGraphicsResourceSetMapFlags_v2, 380) X(cuLinkCreate_v2, 381) X(cuLinkAddData_v2, 382) \
    X(cuLinkAddFile_v2, 383) X(cuOccupancyMaxPotentialBlockSize, 384) X(cuGLGetDevices_v2, 385) \
    X(cuDevicePrimaryCtxRetain, 386) X(cuDevicePrimaryCtxRelease, 387) \
    X(cuDevicePrimaryCtxSetFlags, 388) X(cuDevicePrimaryCtxReset, 389) \
    X(cuGraphicsEGLRegisterImage, 390) X(cuCtxGetFlags, 391) X(cuDevicePrimaryCtxGetState, 392) \
    X(cuEGLStreamConsumerConnect, 393) X(cuEGLStreamConsumerDisconnect, 394) \
    X(cuEGLStreamConsumerAcquireFrame, 395) X(cuEGLStreamConsumerReleaseFrame, 396) \
    X(cuMemcpyHtoD_v2_ptds, 397) X(cuMemcpyDtoH_v2_ptds, 398) X(cuMemcpyDtoD_v2_ptds, 399) \
    X(cuMemcpyDtoA_v2_ptds, 400) X(cuMemcpyAtoD_v2_ptds, 401) X(cuMemcpyHtoA_v2_ptds, 402) \
    X(cuMemcpyAtoH_v2_ptds, 403) X(cuMemcpyAtoA_v2_ptds, 404) X(cuMemcpy2D_v2_ptds, 405) \
    X(cuMemcpy2DUnaligned_v2_ptds, 406) X(cuMemcpy3D_v2_ptds, 407) X(cuMemcpy_ptds, 408) \
    X(cuMemcpyPeer_ptds, 409) X(cuMemcpy3DPeer_ptds, 410) X(cuMemsetD8_v2_ptds, 411) \
    X(cuMemsetD16_v2_ptds, 412) X(cuMemsetD32_v2_ptds, 413) X(cuMemsetD2D8_v2_ptds, 414) \
    X(cuMemsetD2D16_v2_ptds, 415) X(cuMemsetD2D32_v2_ptds, 416) \
    X(cuGLMapBufferObject_v2_ptds, 417) X(cuMemcpyAsync_ptsz, 418) \
    X(cuMemcpyHtoAAsync_v2_ptsz, 419) X(cuMemcpyAtoHAsync_v2_ptsz, 420) \
    X(cuMemcpyHtoDAsync_v2_ptsz, 421) X(cuMemcpyDtoHAsync_v2_ptsz, 422) \
    X(cuMemcpyDtoDAsync_v2_ptsz, 423) X(cuMemcpy2DAsync_v2_ptsz, 424) \
    X(cuMemcpy3DAsync_v2_ptsz, 425) X(cuMemcpyPeerAsync_ptsz, 426) \
    X(cuMemcpy3DPeerAsync_ptsz, 427) X(cuMemsetD8Async_ptsz, 428) X(cuMemsetD16Async_ptsz, 429) \
    X(cuMemsetD32Async_ptsz, 430) X(cuMemsetD2D8Async_ptsz, 431) X(cuMemsetD2D16Async_ptsz, 432) \
    X(cuMemsetD2D32Async_ptsz, 433) X(cuStreamGetPriority_ptsz, 434) X(cuStreamGetFlags_ptsz, 435) \
    X(cuStreamWaitEvent_ptsz, 436) X(cuStreamAddCallback_ptsz, 437) \
    X(cuStreamAttachMemAsync_ptsz, 438) X(cuStreamQuery_ptsz, 439) \
    X(cuStreamSynchronize_ptsz, 440) X(cuEventRecord_ptsz, 441) X(cuLaunchKernel_ptsz, 442) \
    X(cuGraphicsMapResources_ptsz, 443) X(cuGraphicsUnmapResources_ptsz, 444) \
    X(cuGLMapBufferObjectAsync_v2_ptsz, 445) X(cuEGLStreamProducerConnect, 446) \
    X(cuEGLStreamProducerDisconnect, 447) X(cuEGLStreamProducerPresentFrame, 448) \
    X(cuGraphicsResourceGetMappedEglFrame, 449) X(cuPointerGetAttributes, 450) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 451) \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags, 452) X(cuEGLStreamProducerReturnFrame, 453) \
    X(cuDeviceGetP2PAttribute, 454) X(cuTexRefSetBorderColor, 455) X(cuTexRefGetBorderColor, 456) \
    X(cuMemAdvise, 457) X(cuStreamWaitValue32, 458) X(cuStreamWaitValue32_ptsz, 459) \
    X(cuStreamWriteValue32, 460) X(cuStreamWriteValue32_ptsz, 461) X(cuStreamBatchMemOp, 462) \
    X(cuStreamBatchMemOp_ptsz, 463) X(cuNVNbufferGetPointer, 464) X(cuNVNtextureGetArray, 465) \
    X(cuNNSetAllocator, 466) X(cuMemPrefetchAsync, 467) X(cuMemPrefetchAsync_ptsz, 468) \
    X(cuEventCreateFromNVNSync, 469) X(cuEGLStreamConsumerConnectWithFlags, 470) \
    X(cuMemRangeGetAttribute, 471) X(cuMemRangeGetAttributes, 472) X(cuStreamWaitValue64, 473) \
    X(cuStreamWaitValue64_ptsz, 474) X(cuStreamWriteValue64, 475) \
    X(cuStreamWriteValue64_ptsz, 476) X(cuLaunchCooperativeKernel, 477) \
    X(cuLaunchCooperativeKernel_ptsz, 478) X(cuEventCreateFromEGLSync, 479) \
    X(cuLaunchCooperativeKernelMultiDevice, 480) X(cuFuncSetAttribute, 481) \
    X(cuDeviceGetUuid, 482) X(cuStreamGetCtx, 483) X(cuStreamGetCtx_ptsz, 484) \
    X(cuImportExternalMemory, 485) X(cuExternalMemoryGetMappedBuffer, 486) \
    X(cuExternalMemoryGetMappedMipmappedArray, 487) X(cuDestroyExternalMemory, 488) \
    X(cuImportExternalSemaphore, 489) X(cuSignalExternalSemaphoresAsync, 490) \
    X(cuSignalExternalSemaphoresAsync_ptsz, 491) X(cuWaitExternalSemaphoresAsync, 492) \
    X(cuWaitExternalSemaphoresAsync_ptsz, 493) X(cuDestroyExternalSemaphore, 494) \
    X(cuStreamBeginCapture, 495) X(cuStreamBeginCapture_ptsz, 496) X(cuStreamEndCapture, 497) \
    X(cuStreamEndCapture_ptsz, 498) X(cuStreamIsCapturing, 499) X(cuStreamIsCapturing_ptsz, 500) \
    X(cuGraphCreate, 501) X(cuGraphAddKernelNode, 502) X(cuGraphKernelNodeGetParams, 503) \
    X(cuGraphAddMemcpyNode, 504) X(cuGraphMemcpyNodeGetParams, 505) X(cuGraphAddMemsetNode, 506) \
    X(cuGraphMemsetNodeGetParams, 507) X(cuGraphMemsetNodeSetParams, 508) \
    X(cuGraphNodeGetType, 509) X(cuGraphGetRootNodes, 510) X(cuGraphNodeGetDependencies, 511) \
    X(cuGraphNodeGetDependentNodes, 512) X(cuGraphInstantiate, 513) X(cuGraphLaunch, 514) \
    X(cuGraphLaunch_ptsz, 515) X(cuGraphExecDestroy, 516) X(cuGraphDestroy, 517) \
    X(cuGraphAddDependencies, 518) X(cuGraphRemoveDependencies, 519) \
    X(cuGraphMemcpyNodeSetParams, 520) X(cuGraphKernelNodeSetParams, 521) \
    X(cuGraphDestroyNode, 522) X(cuGraphClone, 523) X(cuGraphNodeFindInClone, 524) \
    X(cuGraphAddChildGraphNode, 525) X(cuGraphAddEmptyNode, 526) X(cuLaunchHostFunc, 527) \
    X(cuLaunchHostFunc_ptsz, 528) X(cuGraphChildGraphNodeGetGraph, 529) X(cuGraphAddHostNode, 530) \
    X(cuGraphHostNodeGetParams, 531) X(cuDeviceGetLuid, 532) X(cuGraphHostNodeSetParams, 533) \
    X(cuGraphGetNodes, 534) X(cuGraphGetEdges, 535) X(cuStreamGetCaptureInfo, 536) \
    X(cuStreamGetCaptureInfo_ptsz, 537) X(cuGraphExecKernelNodeSetParams, 538) \
    X(cuStreamBeginCapture_v2, 539) X(cuStreamBeginCapture_v2_ptsz, 540) \
    X(cuThreadExchangeStreamCaptureMode, 541) X(cuDeviceGetNvSciSyncAttributes, 542) \
    X(cuOccupancyAvailableDynamicSMemPerBlock, 543) X(cuDevicePrimaryCtxRelease_v2, 544) \
    X(cuDevicePrimaryCtxReset_v2, 545) X(cuDevicePrimaryCtxSetFlags_v2, 546) \
    X(cuMemAddressReserve, 547) X(cuMemAddressFree, 548) X(cuMemCreate, 549) X(cuMemRelease, 550) \
    X(cuMemMap, 551) X(cuMemUnmap, 552) X(cuMemSetAccess, 553) \
    X(cuMemExportToShareableHandle, 554) X(cuMemImportFromShareableHandle, 555) \
    X(cuMemGetAllocationGranularity, 556) X(cuMemGetAllocationPropertiesFromHandle, 557) \
    X(cuMemGetAccess, 558) X(cuStreamSetFlags, 559) X(cuStreamSetFlags_ptsz, 560) \
    X(cuGraphExecUpdate, 561) X(cuGraphExecMemcpyNodeSetParams, 562) \
    X(cuGraphExecMemsetNodeSetParams, 563) X(cuGraphExecHostNodeSetParams, 564) \
    X(cuMemRetainAllocationHandle, 565) X(cuFuncGetModule, 566) X(cuIpcOpenMemHandle_v2, 567) \
    X(cuCtxResetPersistingL2Cache, 568) X(cuGraphKernelNodeCopyAttributes, 569) \
    X(cuGraphKernelNodeGetAttribute, 570) X(cuGraphKernelNodeSetAttribute, 571) \
    X(cuStreamCopyAttributes, 572) X(cuStreamCopyAttributes_ptsz, 573) \
    X(cuStreamGetAttribute, 574) X(cuStreamGetAttribute_ptsz, 575) X(cuStreamSetAttribute, 576) \
    X(cuStreamSetAttribute_ptsz, 577) X(cuGraphInstantiate_v2, 578) \
    X(cuDeviceGetTexture1DLinearMaxWidth, 579) X(cuGraphUpload, 580) X(cuGraphUpload_ptsz, 581) \
    X(cuArrayGetSparseProperties, 582) X(cuMipmappedArrayGetSparseProperties, 583) \
    X(cuMemMapArrayAsync, 584) X(cuMemMapArrayAsync_ptsz, 585) \
    X(cuGraphExecChildGraphNodeSetParams, 586) X(cuEventRecordWithFlags, 587) \
    X(cuEventRecordWithFlags_ptsz, 588) X(cuGraphAddEventRecordNode, 589) \
    X(cuGraphAddEventWaitNode, 590) X(cuGraphEventRecordNodeGetEvent, 591) \
    X(cuGraphEventWaitNodeGetEvent, 592) X(cuGraphEventRecordNodeSetEvent, 593) \
    X(cuGraphEventWaitNodeSetEvent, 594) X(cuGraphExecEventRecordNodeSetEvent, 595) \
    X(cuGraphExecEventWaitNodeSetEvent, 596) X(cuArrayGetPlane, 597) X(cuMemAllocAsync, 598) \
    X(cuMemAllocAsync_ptsz, 599) X(cuMemFreeAsync, 600) X(cuMemFreeAsync_ptsz, 601) \
    X(cuMemPoolTrimTo, 602) X(cuMemPoolSetAttribute, 603) X(cuMemPoolGetAttribute, 604) \
    X(cuMemPoolSetAccess, 605) X(cuDeviceGetDefaultMemPool, 606) X(cuMemPoolCreate, 607) \
    X(cuMemPoolDestroy, 608) X(cuDeviceSetMemPool, 609) X(cuDeviceGetMemPool, 610) \
    X(cuMemAllocFromPoolAsync, 611) X(cuMemAllocFromPoolAsync_ptsz, 612) \
    X(cuMemPoolExportToShareableHandle, 613) X(cuMemPoolImportFromShareableHandle, 614) \
    X(cuMemPoolExportPointer, 615) X(cuMemPoolImportPointer, 616) X(cuMemPoolGetAccess, 617) \
    X(cuGraphAddExternalSemaphoresSignalNode, 618) \
    X(cuGraphExternalSemaphoresSignalNodeGetParams, 619) \
    X(cuGraphExternalSemaphoresSignalNodeSetParams, 620) \
    X(cuGraphAddExternalSemaphoresWaitNode, 621) \
    X(cuGraphExternalSemaphoresWaitNodeGetParams, 622) \
    X(cuGraphExternalSemaphoresWaitNodeSetParams, 623) \
    X(cuGraphExecExternalSemaphoresSignalNodeSetParams, 624) \
    X(cuGraphExecExternalSemaphoresWaitNodeSetParams, 625) X(cuGetProcAddress, 626) \
    X(cuFlushGPUDirectRDMAWrites, 627) X(cuGraphDebugDotPrint, 628) \
    X(cuStreamGetCaptureInfo_v2, 629) X(cuStreamGetCaptureInfo_v2_ptsz, 630) \
    X(cuStreamUpdateCaptureDependencies, 631) X(cuStreamUpdateCaptureDependencies_ptsz, 632) \
    X(cuUserObjectCreate, 633) X(cuUserObjectRetain, 634) X(cuUserObjectRelease, 635) \
    X(cuGraphRetainUserObject, 636) X(cuGraphReleaseUserObject, 637) \
    X(cuGraphAddMemAllocNode, 638) X(cuGraphAddMemFreeNode, 639) X(cuDeviceGraphMemTrim, 640) \
    X(cuDeviceGetGraphMemAttribute, 641) X(cuDeviceSetGraphMemAttribute, 642) \
    X(cuGraphInstantiateWithFlags, 643) X(cuDeviceGetExecAffinitySupport, 644) \
    X(cuCtxCreate_v3, 645) X(cuCtxGetExecAffinity, 646) X(cuDeviceGetUuid_v2, 647) \
    X(cuGraphMemAllocNodeGetParams, 648) X(cuGraphMemFreeNodeGetParams, 649) \
    X(cuGraphNodeSetEnabled, 650) X(cuGraphNodeGetEnabled, 651) X(cuLaunchKernelEx, 652) \
    X(cuLaunchKernelEx_ptsz, 653) X(cuArrayGetMemoryRequirements, 654) \
    X(cuMipmappedArrayGetMemoryRequirements, 655) X(cuGraphInstantiateWithParams, 656) \
    X(cuGraphInstantiateWithParams_ptsz, 657) X(cuGraphExecGetFlags, 658) \
    X(cuStreamWaitValue32_v2, 659) X(cuStreamWaitValue32_v2_ptsz, 660) \
    X(cuStreamWaitValue64_v2, 661) X(cuStreamWaitValue64_v2_ptsz, 662) \
    X(cuStreamWriteValue32_v2, 663) X(cuStreamWriteValue32_v2_ptsz, 664) \
    X(cuStreamWriteValue64_v2, 665) X(cuStreamWriteValue64_v2_ptsz, 666) \
    X(cuStreamBatchMemOp_v2, 667) X(cuStreamBatchMemOp_v2_ptsz, 668) \
    X(cuGraphAddBatchMemOpNode, 669) X(cuGraphBatchMemOpNodeGetParams, 670) \
    X(cuGraphBatchMemOpNodeSetParams, 671) X(cuGraphExecBatchMemOpNodeSetParams, 672) \
    X(cuModuleGetLoadingMode, 673) X(cuMemGetHandleForAddressRange, 674) \
    X(cuOccupancyMaxPotentialClusterSize, 675) X(cuOccupancyMaxActiveClusters, 676) \
    X(cuGetProcAddress_v2, 677) X(cuLibraryLoadData, 678) X(cuLibraryLoadFromFile, 679) \
    X(cuLibraryUnload, 680) X(cuLibraryGetKernel, 681) X(cuLibraryGetModule, 682) \
    X(cuKernelGetFunction, 683) X(cuLibraryGetGlobal, 684) X(cuLibraryGetManaged, 685) \
    X(cuKernelGetAttribute, 686) X(cuKernelSetAttribute, 687) X(cuKernelSetCacheConfig, 688) \
    X(cuGraphAddKernelNode_v2, 689) X(cuGraphKernelNodeGetParams_v2, 690) \
    X(cuGraphKernelNodeSetParams_v2, 691) X(cuGraphExecKernelNodeSetParams_v2, 692) \
    X(cuStreamGetId, 693) X(cuStreamGetId_ptsz, 694) X(cuCtxGetId, 695) \
    X(cuGraphExecUpdate_v2, 696) X(cuTensorMapEncodeTiled, 697) X(cuTensorMapEncodeIm2col, 698) \
    X(cuTensorMapReplaceAddress, 699) X(cuLibraryGetUnifiedFunction, 700) \
    X(cuCoredumpGetAttribute, 701) X(cuCoredumpGetAttributeGlobal, 702) \
    X(cuCoredumpSetAttribute, 703) X(cuCoredumpSetAttributeGlobal, 704) X(cuCtxSetFlags, 705) \
    X(cuMulticastCreate, 706) X(cuMulticastAddDevice, 707) X(cuMulticastBindMem, 708) \
    X(cuMulticastBindAddr, 709) X(cuMulticastUnbind, 710) X(cuMulticastGetGranularity, 711) \
    X(cuGraphAddNode, 712) X(cuGraphNodeSetParams, 713) X(cuGraphExecNodeSetParams, 714) \
    X(cuMemAdvise_v2, 715) X(cuMemPrefetchAsync_v2, 716) X(cuMemPrefetchAsync_v2_ptsz, 717) \
    X(cuFuncGetName, 718) X(cuKernelGetName, 719) X(cuStreamBeginCaptureToGraph, 720) \
    X(cuStreamBeginCaptureToGraph_ptsz, 721) X(cuGraphConditionalHandleCreate, 722) \
    X(cuGraphAddNode_v2, 723) X(cuGraphGetEdges_v2, 724) X(cuGraphNodeGetDependencies_v2, 725) \
    X(cuGraphNodeGetDependentNodes_v2, 726) X(cuGraphAddDependencies_v2, 727) \
    X(cuGraphRemoveDependencies_v2, 728) X(cuStreamGetCaptureInfo_v3, 729) \
    X(cuStreamGetCaptureInfo_v3_ptsz, 730) X(cuStreamUpdateCaptureDependencies_v2, 731) \
    X(cuStreamUpdateCaptureDependencies_v2_ptsz, 732) X(cuFuncGetParamInfo, 733) \
    X(cuKernelGetParamInfo, 734) X(cuDeviceRegisterAsyncNotification, 735) \
    X(cuDeviceUnregisterAsyncNotification, 736) X(cuModuleGetFunctionCount, 737) \
    X(cuModuleEnumerateFunctions, 738) X(cuLibraryGetKernelCount, 739) \
    X(cuLibraryEnumerateKernels, 740) X(cuFuncIsLoaded, 741) X(cuFuncLoad, 742) \
    X(cuGreenCtxCreate, 743) X(cuGreenCtxDestroy, 744) X(cuDeviceGetDevResource, 745) \
    X(cuCtxGetDevResource, 746) X(cuGreenCtxGetDevResource, 747) X(cuDevResourceGenerateDesc, 748) \
    X(cuGreenCtxRecordEvent, 749) X(cuGreenCtxWaitEvent, 750) X(cuDevSmResourceSplitByCount, 751) \
    X(cuStreamGetGreenCtx, 752) X(cuCtxFromGreenCtx, 753) X(cuKernelGetLibrary, 754) \
    X(cuCtxRecordEvent, 755) X(cuCtxWaitEvent, 756) X(cuCtxCreate_v4, 757) \
    X(cuGreenCtxStreamCreate, 758) X(cuStreamGetCtx_v2, 759) X(cuStreamGetCtx_v2_ptsz, 760) \
    X(cuMemBatchDecompressAsync, 761) X(cuMemBatchDecompressAsync_ptsz, 762) \
    X(cuLogsRegisterCallback, 763) X(cuLogsUnregisterCallback, 764) X(cuLogsCurrent, 765) \
    X(cuLogsDumpToFile, 766) X(cuLogsDumpToMemory, 767) \
    X(cuCheckpointProcessGetRestoreThreadId, 768) X(cuCheckpointProcessGetState, 769) \
    X(cuCheckpointProcessLock, 770) X(cuCheckpointProcessCheckpoint, 771) \
    X(cuCheckpointProcessRestore, 772) X(cuCheckpointProcessUnlock, 773) X(cuStreamGetDevice, 774) \
    X(cuStreamGetDevice_ptsz, 775) X(cuMemcpyBatchAsync, 776) X(cuMemcpyBatchAsync_ptsz, 777) \
    X(cuMemcpy3DBatchAsync, 778) X(cuMemcpy3DBatchAsync_ptsz, 779) X(cuEventElapsedTime_v2, 780) \
    X(cuTensorMapEncodeIm2colWide, 781) X(cuGreenCtxGetId, 782) \
    X(cuStreamCreateForCaptureToCig, 783) X(cuMemPrefetchBatchAsync, 784) \
    X(cuMemPrefetchBatchAsync_ptsz, 785) X(cuSemaphoreCreate, 786) X(cuSemaphoreExport, 787) \
    X(cuSemaphoreDestroy, 788) X(cuMemDiscardBatchAsync, 789) X(cuMemDiscardBatchAsync_ptsz, 790) \
    X(cuMemDiscardAndPrefetchBatchAsync, 791) X(cuMemDiscardAndPrefetchBatchAsync_ptsz, 792) \
    X(cuMultiKernelCooperativeDomainCreate, 793) X(cuMultiKernelCooperativeDomainDestroy, 794) \
    X(cuCtxGetDevice_v2, 795) X(cuMemcpyBatchAsync_v2, 796) X(cuMemcpyBatchAsync_v2_ptsz, 797) \
    X(cuMemcpy3DBatchAsync_v2, 798) X(cuMemcpy3DBatchAsync_v2_ptsz, 799) \
    X(cuCtxSynchronize_v2, 800) X(cuMemGetDefaultMemPool, 801) X(cuMemGetMemPool, 802) \
    X(cuMemSetMemPool, 803) X(cuDeviceGetP2PAtomicCapabilities, 804) \
    X(cuDeviceGetHostAtomicCapabilities, 805) X(cuDriverGetGpuCodeIsaVersion, 806)
/* clang-format on */
