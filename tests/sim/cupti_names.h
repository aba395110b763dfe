/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the API calls that CUPTI reports, as cuptiGetCallbackName() gives them. The ids come from the CUPTI headers, where each
 * name must exist; made from cupti_runtime_cbid.h and cupti_driver_cbid.h of CUDA 13.0U1. */
#ifndef TESTS_SIM_CUPTI_NAMES_H
#define TESTS_SIM_CUPTI_NAMES_H

/* clang-format off */
#define RUNTIME_CALLS(X) \
    X(cudaDriverGetVersion_v3020) X(cudaRuntimeGetVersion_v3020) X(cudaGetDeviceCount_v3020) \
    X(cudaGetDeviceProperties_v3020) X(cudaChooseDevice_v3020) X(cudaGetChannelDesc_v3020) \
    X(cudaCreateChannelDesc_v3020) X(cudaConfigureCall_v3020) X(cudaSetupArgument_v3020) \
    X(cudaGetLastError_v3020) X(cudaPeekAtLastError_v3020) X(cudaGetErrorString_v3020) \
    X(cudaLaunch_v3020) X(cudaFuncSetCacheConfig_v3020) X(cudaFuncGetAttributes_v3020) \
    X(cudaSetDevice_v3020) X(cudaGetDevice_v3020) X(cudaSetValidDevices_v3020) \
    X(cudaSetDeviceFlags_v3020) X(cudaMalloc_v3020) X(cudaMallocPitch_v3020) X(cudaFree_v3020) \
    X(cudaMallocArray_v3020) X(cudaFreeArray_v3020) X(cudaMallocHost_v3020) X(cudaFreeHost_v3020) \
    X(cudaHostAlloc_v3020) X(cudaHostGetDevicePointer_v3020) X(cudaHostGetFlags_v3020) \
    X(cudaMemGetInfo_v3020) X(cudaMemcpy_v3020) X(cudaMemcpy2D_v3020) X(cudaMemcpyToArray_v3020) \
    X(cudaMemcpy2DToArray_v3020) X(cudaMemcpyFromArray_v3020) X(cudaMemcpy2DFromArray_v3020) \
    X(cudaMemcpyArrayToArray_v3020) X(cudaMemcpy2DArrayToArray_v3020) X(cudaMemcpyToSymbol_v3020) \
    X(cudaMemcpyFromSymbol_v3020) X(cudaMemcpyAsync_v3020) X(cudaMemcpyToArrayAsync_v3020) \
    X(cudaMemcpyFromArrayAsync_v3020) X(cudaMemcpy2DAsync_v3020) \
    X(cudaMemcpy2DToArrayAsync_v3020) X(cudaMemcpy2DFromArrayAsync_v3020) \
    X(cudaMemcpyToSymbolAsync_v3020) X(cudaMemcpyFromSymbolAsync_v3020) X(cudaMemset_v3020) \
    X(cudaMemset2D_v3020) X(cudaMemsetAsync_v3020) X(cudaMemset2DAsync_v3020) \
    X(cudaGetSymbolAddress_v3020) X(cudaGetSymbolSize_v3020) X(cudaBindTexture_v3020) \
    X(cudaBindTexture2D_v3020) X(cudaBindTextureToArray_v3020) X(cudaUnbindTexture_v3020) \
    X(cudaGetTextureAlignmentOffset_v3020) X(cudaGetTextureReference_v3020) \
    X(cudaBindSurfaceToArray_v3020) X(cudaGetSurfaceReference_v3020) X(cudaGLSetGLDevice_v3020) \
    X(cudaGLRegisterBufferObject_v3020) X(cudaGLMapBufferObject_v3020) \
    X(cudaGLUnmapBufferObject_v3020) X(cudaGLUnregisterBufferObject_v3020) \
    X(cudaGLSetBufferObjectMapFlags_v3020) X(cudaGLMapBufferObjectAsync_v3020) \
    X(cudaGLUnmapBufferObjectAsync_v3020) X(cudaWGLGetDevice_v3020) \
    X(cudaGraphicsGLRegisterImage_v3020) X(cudaGraphicsGLRegisterBuffer_v3020) \
    X(cudaGraphicsUnregisterResource_v3020) X(cudaGraphicsResourceSetMapFlags_v3020) \
    X(cudaGraphicsMapResources_v3020) X(cudaGraphicsUnmapResources_v3020) \
    X(cudaGraphicsResourceGetMappedPointer_v3020) X(cudaGraphicsSubResourceGetMappedArray_v3020) \
    X(cudaVDPAUGetDevice_v3020) X(cudaVDPAUSetVDPAUDevice_v3020) \
    X(cudaGraphicsVDPAURegisterVideoSurface_v3020) \
    X(cudaGraphicsVDPAURegisterOutputSurface_v3020) X(cudaD3D11GetDevice_v3020) \
    X(cudaD3D11GetDevices_v3020) X(cudaD3D11SetDirect3DDevice_v3020) \
    X(cudaGraphicsD3D11RegisterResource_v3020) X(cudaD3D10GetDevice_v3020) \
    X(cudaD3D10GetDevices_v3020) X(cudaD3D10SetDirect3DDevice_v3020) \
    X(cudaGraphicsD3D10RegisterResource_v3020) X(cudaD3D10RegisterResource_v3020) \
    X(cudaD3D10UnregisterResource_v3020) X(cudaD3D10MapResources_v3020) \
    X(cudaD3D10UnmapResources_v3020) X(cudaD3D10ResourceSetMapFlags_v3020) \
    X(cudaD3D10ResourceGetSurfaceDimensions_v3020) X(cudaD3D10ResourceGetMappedArray_v3020) \
    X(cudaD3D10ResourceGetMappedPointer_v3020) X(cudaD3D10ResourceGetMappedSize_v3020) \
    X(cudaD3D10ResourceGetMappedPitch_v3020) X(cudaD3D9GetDevice_v3020) \
    X(cudaD3D9GetDevices_v3020) X(cudaD3D9SetDirect3DDevice_v3020) \
    X(cudaD3D9GetDirect3DDevice_v3020) X(cudaGraphicsD3D9RegisterResource_v3020) \
    X(cudaD3D9RegisterResource_v3020) X(cudaD3D9UnregisterResource_v3020) \
    X(cudaD3D9MapResources_v3020) X(cudaD3D9UnmapResources_v3020) \
    X(cudaD3D9ResourceSetMapFlags_v3020) X(cudaD3D9ResourceGetSurfaceDimensions_v3020) \
    X(cudaD3D9ResourceGetMappedArray_v3020) X(cudaD3D9ResourceGetMappedPointer_v3020) \
    X(cudaD3D9ResourceGetMappedSize_v3020) X(cudaD3D9ResourceGetMappedPitch_v3020) \
    X(cudaD3D9Begin_v3020) X(cudaD3D9End_v3020) X(cudaD3D9RegisterVertexBuffer_v3020) \
    X(cudaD3D9UnregisterVertexBuffer_v3020) X(cudaD3D9MapVertexBuffer_v3020) \
    X(cudaD3D9UnmapVertexBuffer_v3020) X(cudaThreadExit_v3020) X(cudaSetDoubleForDevice_v3020) \
    X(cudaSetDoubleForHost_v3020) X(cudaThreadSynchronize_v3020) X(cudaThreadGetLimit_v3020) \
    X(cudaThreadSetLimit_v3020) X(cudaStreamCreate_v3020) X(cudaStreamDestroy_v3020) \
    X(cudaStreamSynchronize_v3020) X(cudaStreamQuery_v3020) X(cudaEventCreate_v3020) \
    X(cudaEventCreateWithFlags_v3020) X(cudaEventRecord_v3020) X(cudaEventDestroy_v3020) \
    X(cudaEventSynchronize_v3020) X(cudaEventQuery_v3020) X(cudaEventElapsedTime_v3020) \
    X(cudaMalloc3D_v3020) X(cudaMalloc3DArray_v3020) X(cudaMemset3D_v3020) \
    X(cudaMemset3DAsync_v3020) X(cudaMemcpy3D_v3020) X(cudaMemcpy3DAsync_v3020) \
    X(cudaThreadSetCacheConfig_v3020) X(cudaStreamWaitEvent_v3020) \
    X(cudaD3D11GetDirect3DDevice_v3020) X(cudaD3D10GetDirect3DDevice_v3020) \
    X(cudaThreadGetCacheConfig_v3020) X(cudaPointerGetAttributes_v4000) X(cudaHostRegister_v4000) \
    X(cudaHostUnregister_v4000) X(cudaDeviceCanAccessPeer_v4000) \
    X(cudaDeviceEnablePeerAccess_v4000) X(cudaDeviceDisablePeerAccess_v4000) \
    X(cudaPeerRegister_v4000) X(cudaPeerUnregister_v4000) X(cudaPeerGetDevicePointer_v4000) \
    X(cudaMemcpyPeer_v4000) X(cudaMemcpyPeerAsync_v4000) X(cudaMemcpy3DPeer_v4000) \
    X(cudaMemcpy3DPeerAsync_v4000) X(cudaDeviceReset_v3020) X(cudaDeviceSynchronize_v3020) \
    X(cudaDeviceGetLimit_v3020) X(cudaDeviceSetLimit_v3020) X(cudaDeviceGetCacheConfig_v3020) \
    X(cudaDeviceSetCacheConfig_v3020) X(cudaProfilerInitialize_v4000) X(cudaProfilerStart_v4000) \
    X(cudaProfilerStop_v4000) X(cudaDeviceGetByPCIBusId_v4010) X(cudaDeviceGetPCIBusId_v4010) \
    X(cudaGLGetDevices_v4010) X(cudaIpcGetEventHandle_v4010) X(cudaIpcOpenEventHandle_v4010) \
    X(cudaIpcGetMemHandle_v4010) X(cudaIpcOpenMemHandle_v4010) X(cudaIpcCloseMemHandle_v4010) \
    X(cudaArrayGetInfo_v4010) X(cudaFuncSetSharedMemConfig_v4020) \
    X(cudaDeviceGetSharedMemConfig_v4020) X(cudaDeviceSetSharedMemConfig_v4020) \
    X(cudaCreateTextureObject_v5000) X(cudaDestroyTextureObject_v5000) \
    X(cudaGetTextureObjectResourceDesc_v5000) X(cudaGetTextureObjectTextureDesc_v5000) \
    X(cudaCreateSurfaceObject_v5000) X(cudaDestroySurfaceObject_v5000) \
    X(cudaGetSurfaceObjectResourceDesc_v5000) X(cudaMallocMipmappedArray_v5000) \
    X(cudaGetMipmappedArrayLevel_v5000) X(cudaFreeMipmappedArray_v5000) \
    X(cudaBindTextureToMipmappedArray_v5000) X(cudaGraphicsResourceGetMappedMipmappedArray_v5000) \
    X(cudaStreamAddCallback_v5000) X(cudaStreamCreateWithFlags_v5000) \
    X(cudaGetTextureObjectResourceViewDesc_v5000) X(cudaDeviceGetAttribute_v5000) \
    X(cudaStreamDestroy_v5050) X(cudaStreamCreateWithPriority_v5050) \
    X(cudaStreamGetPriority_v5050) X(cudaStreamGetFlags_v5050) \
    X(cudaDeviceGetStreamPriorityRange_v5050) X(cudaMallocManaged_v6000) \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessor_v6000) X(cudaStreamAttachMemAsync_v6000) \
    X(cudaGetErrorName_v6050) X(cudaOccupancyMaxActiveBlocksPerMultiprocessor_v6050) \
    X(cudaLaunchKernel_v7000) X(cudaGetDeviceFlags_v7000) X(cudaLaunch_ptsz_v7000) \
    X(cudaLaunchKernel_ptsz_v7000) X(cudaMemcpy_ptds_v7000) X(cudaMemcpy2D_ptds_v7000) \
    X(cudaMemcpyToArray_ptds_v7000) X(cudaMemcpy2DToArray_ptds_v7000) \
    X(cudaMemcpyFromArray_ptds_v7000) X(cudaMemcpy2DFromArray_ptds_v7000) \
    X(cudaMemcpyArrayToArray_ptds_v7000) X(cudaMemcpy2DArrayToArray_ptds_v7000) \
    X(cudaMemcpyToSymbol_ptds_v7000) X(cudaMemcpyFromSymbol_ptds_v7000) \
    X(cudaMemcpyAsync_ptsz_v7000) X(cudaMemcpyToArrayAsync_ptsz_v7000) \
    X(cudaMemcpyFromArrayAsync_ptsz_v7000) X(cudaMemcpy2DAsync_ptsz_v7000) \
    X(cudaMemcpy2DToArrayAsync_ptsz_v7000) X(cudaMemcpy2DFromArrayAsync_ptsz_v7000) \
    X(cudaMemcpyToSymbolAsync_ptsz_v7000) X(cudaMemcpyFromSymbolAsync_ptsz_v7000) \
    X(cudaMemset_ptds_v7000) X(cudaMemset2D_ptds_v7000) X(cudaMemsetAsync_ptsz_v7000) \
    X(cudaMemset2DAsync_ptsz_v7000) X(cudaStreamGetPriority_ptsz_v7000) \
    X(cudaStreamGetFlags_ptsz_v7000) X(cudaStreamSynchronize_ptsz_v7000) \
    X(cudaStreamQuery_ptsz_v7000) X(cudaStreamAttachMemAsync_ptsz_v7000) \
    X(cudaEventRecord_ptsz_v7000) X(cudaMemset3D_ptds_v7000) X(cudaMemset3DAsync_ptsz_v7000) \
    X(cudaMemcpy3D_ptds_v7000) X(cudaMemcpy3DAsync_ptsz_v7000) X(cudaStreamWaitEvent_ptsz_v7000) \
    X(cudaStreamAddCallback_ptsz_v7000) X(cudaMemcpy3DPeer_ptds_v7000) \
    X(cudaMemcpy3DPeerAsync_ptsz_v7000) \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_v7000) X(cudaMemPrefetchAsync_v8000) \
    X(cudaMemPrefetchAsync_ptsz_v8000) X(cudaMemAdvise_v8000) X(cudaDeviceGetP2PAttribute_v8000) \
    X(cudaGraphicsEGLRegisterImage_v7000) X(cudaEGLStreamConsumerConnect_v7000) \
    X(cudaEGLStreamConsumerDisconnect_v7000) X(cudaEGLStreamConsumerAcquireFrame_v7000) \
    X(cudaEGLStreamConsumerReleaseFrame_v7000) X(cudaEGLStreamProducerConnect_v7000) \
    X(cudaEGLStreamProducerDisconnect_v7000) X(cudaEGLStreamProducerPresentFrame_v7000) \
    X(cudaEGLStreamProducerReturnFrame_v7000) X(cudaGraphicsResourceGetMappedEglFrame_v7000) \
    X(cudaMemRangeGetAttribute_v8000) X(cudaMemRangeGetAttributes_v8000) \
    X(cudaEGLStreamConsumerConnectWithFlags_v7000) X(cudaLaunchCooperativeKernel_v9000) \
    X(cudaLaunchCooperativeKernel_ptsz_v9000) X(cudaEventCreateFromEGLSync_v9000) \
    X(cudaLaunchCooperativeKernelMultiDevice_v9000) X(cudaFuncSetAttribute_v9000) \
    X(cudaImportExternalMemory_v10000) X(cudaExternalMemoryGetMappedBuffer_v10000) \
    X(cudaExternalMemoryGetMappedMipmappedArray_v10000) X(cudaDestroyExternalMemory_v10000) \
    X(cudaImportExternalSemaphore_v10000) X(cudaSignalExternalSemaphoresAsync_v10000) \
    X(cudaSignalExternalSemaphoresAsync_ptsz_v10000) X(cudaWaitExternalSemaphoresAsync_v10000) \
    X(cudaWaitExternalSemaphoresAsync_ptsz_v10000) X(cudaDestroyExternalSemaphore_v10000) \
    X(cudaLaunchHostFunc_v10000) X(cudaLaunchHostFunc_ptsz_v10000) X(cudaGraphCreate_v10000) \
    X(cudaGraphKernelNodeGetParams_v10000) X(cudaGraphKernelNodeSetParams_v10000) \
    X(cudaGraphAddKernelNode_v10000) X(cudaGraphAddMemcpyNode_v10000) \
    X(cudaGraphMemcpyNodeGetParams_v10000) X(cudaGraphMemcpyNodeSetParams_v10000) \
    X(cudaGraphAddMemsetNode_v10000) X(cudaGraphMemsetNodeGetParams_v10000) \
    X(cudaGraphMemsetNodeSetParams_v10000) X(cudaGraphAddHostNode_v10000) \
    X(cudaGraphHostNodeGetParams_v10000) X(cudaGraphAddChildGraphNode_v10000) \
    X(cudaGraphChildGraphNodeGetGraph_v10000) X(cudaGraphAddEmptyNode_v10000) \
    X(cudaGraphClone_v10000) X(cudaGraphNodeFindInClone_v10000) X(cudaGraphNodeGetType_v10000) \
    X(cudaGraphGetRootNodes_v10000) X(cudaGraphNodeGetDependencies_v10000) \
    X(cudaGraphNodeGetDependentNodes_v10000) X(cudaGraphAddDependencies_v10000) \
    X(cudaGraphRemoveDependencies_v10000) X(cudaGraphDestroyNode_v10000) \
    X(cudaGraphInstantiate_v10000) X(cudaGraphLaunch_v10000) X(cudaGraphLaunch_ptsz_v10000) \
    X(cudaGraphExecDestroy_v10000) X(cudaGraphDestroy_v10000) X(cudaStreamBeginCapture_v10000) \
    X(cudaStreamBeginCapture_ptsz_v10000) X(cudaStreamIsCapturing_v10000) \
    X(cudaStreamIsCapturing_ptsz_v10000) X(cudaStreamEndCapture_v10000) \
    X(cudaStreamEndCapture_ptsz_v10000) X(cudaGraphHostNodeSetParams_v10000) \
    X(cudaGraphGetNodes_v10000) X(cudaGraphGetEdges_v10000) X(cudaStreamGetCaptureInfo_v10010) \
    X(cudaStreamGetCaptureInfo_ptsz_v10010) X(cudaGraphExecKernelNodeSetParams_v10010) \
    X(cudaThreadExchangeStreamCaptureMode_v10010) X(cudaDeviceGetNvSciSyncAttributes_v10020) \
    X(cudaOccupancyAvailableDynamicSMemPerBlock_v10200) X(cudaStreamSetFlags_v10200) \
    X(cudaStreamSetFlags_ptsz_v10200) X(cudaGraphExecMemcpyNodeSetParams_v10020) \
    X(cudaGraphExecMemsetNodeSetParams_v10020) X(cudaGraphExecHostNodeSetParams_v10020) \
    X(cudaGraphExecUpdate_v10020) X(cudaGetFuncBySymbol_v11000) \
    X(cudaCtxResetPersistingL2Cache_v11000) X(cudaGraphKernelNodeCopyAttributes_v11000) \
    X(cudaGraphKernelNodeGetAttribute_v11000) X(cudaGraphKernelNodeSetAttribute_v11000) \
    X(cudaStreamCopyAttributes_v11000) X(cudaStreamCopyAttributes_ptsz_v11000) \
    X(cudaStreamGetAttribute_v11000) X(cudaStreamGetAttribute_ptsz_v11000) \
    X(cudaStreamSetAttribute_v11000) X(cudaStreamSetAttribute_ptsz_v11000) \
    X(cudaDeviceGetTexture1DLinearMaxWidth_v11010) X(cudaGraphUpload_v10000) \
    X(cudaGraphUpload_ptsz_v10000) X(cudaGraphAddMemcpyNodeToSymbol_v11010) \
    X(cudaGraphAddMemcpyNodeFromSymbol_v11010) X(cudaGraphAddMemcpyNode1D_v11010) \
    X(cudaGraphMemcpyNodeSetParamsToSymbol_v11010) \
    X(cudaGraphMemcpyNodeSetParamsFromSymbol_v11010) X(cudaGraphMemcpyNodeSetParams1D_v11010) \
    X(cudaGraphExecMemcpyNodeSetParamsToSymbol_v11010) \
    X(cudaGraphExecMemcpyNodeSetParamsFromSymbol_v11010) \
    X(cudaGraphExecMemcpyNodeSetParams1D_v11010) X(cudaArrayGetSparseProperties_v11010) \
    X(cudaMipmappedArrayGetSparseProperties_v11010) \
    X(cudaGraphExecChildGraphNodeSetParams_v11010) X(cudaGraphAddEventRecordNode_v11010) \
    X(cudaGraphEventRecordNodeGetEvent_v11010) X(cudaGraphEventRecordNodeSetEvent_v11010) \
    X(cudaGraphAddEventWaitNode_v11010) X(cudaGraphEventWaitNodeGetEvent_v11010) \
    X(cudaGraphEventWaitNodeSetEvent_v11010) X(cudaGraphExecEventRecordNodeSetEvent_v11010) \
    X(cudaGraphExecEventWaitNodeSetEvent_v11010) X(cudaEventRecordWithFlags_v11010) \
    X(cudaEventRecordWithFlags_ptsz_v11010) X(cudaDeviceGetDefaultMemPool_v11020) \
    X(cudaMallocAsync_v11020) X(cudaMallocAsync_ptsz_v11020) X(cudaFreeAsync_v11020) \
    X(cudaFreeAsync_ptsz_v11020) X(cudaMemPoolTrimTo_v11020) X(cudaMemPoolSetAttribute_v11020) \
    X(cudaMemPoolGetAttribute_v11020) X(cudaMemPoolSetAccess_v11020) X(cudaArrayGetPlane_v11020) \
    X(cudaMemPoolGetAccess_v11020) X(cudaMemPoolCreate_v11020) X(cudaMemPoolDestroy_v11020) \
    X(cudaDeviceSetMemPool_v11020) X(cudaDeviceGetMemPool_v11020) \
    X(cudaMemPoolExportToShareableHandle_v11020) X(cudaMemPoolImportFromShareableHandle_v11020) \
    X(cudaMemPoolExportPointer_v11020) X(cudaMemPoolImportPointer_v11020) \
    X(cudaMallocFromPoolAsync_v11020) X(cudaMallocFromPoolAsync_ptsz_v11020) \
    X(cudaSignalExternalSemaphoresAsync_v11020) X(cudaSignalExternalSemaphoresAsync_ptsz_v11020) \
    X(cudaWaitExternalSemaphoresAsync_v11020) X(cudaWaitExternalSemaphoresAsync_ptsz_v11020) \
    X(cudaGraphAddExternalSemaphoresSignalNode_v11020) \
    X(cudaGraphExternalSemaphoresSignalNodeGetParams_v11020) \
    X(cudaGraphExternalSemaphoresSignalNodeSetParams_v11020) \
    X(cudaGraphAddExternalSemaphoresWaitNode_v11020) \
    X(cudaGraphExternalSemaphoresWaitNodeGetParams_v11020) \
    X(cudaGraphExternalSemaphoresWaitNodeSetParams_v11020) \
    X(cudaGraphExecExternalSemaphoresSignalNodeSetParams_v11020) \
    X(cudaGraphExecExternalSemaphoresWaitNodeSetParams_v11020) \
    X(cudaDeviceFlushGPUDirectRDMAWrites_v11030) X(cudaGetDriverEntryPoint_v11030) \
    X(cudaGetDriverEntryPoint_ptsz_v11030) X(cudaGraphDebugDotPrint_v11030) \
    X(cudaStreamGetCaptureInfo_v2_v11030) X(cudaStreamGetCaptureInfo_v2_ptsz_v11030) \
    X(cudaStreamUpdateCaptureDependencies_v11030) \
    X(cudaStreamUpdateCaptureDependencies_ptsz_v11030) X(cudaUserObjectCreate_v11030) \
    X(cudaUserObjectRetain_v11030) X(cudaUserObjectRelease_v11030) \
    X(cudaGraphRetainUserObject_v11030) X(cudaGraphReleaseUserObject_v11030) \
    X(cudaGraphInstantiateWithFlags_v11040) X(cudaGraphAddMemAllocNode_v11040) \
    X(cudaGraphMemAllocNodeGetParams_v11040) X(cudaGraphAddMemFreeNode_v11040) \
    X(cudaGraphMemFreeNodeGetParams_v11040) X(cudaDeviceGraphMemTrim_v11040) \
    X(cudaDeviceGetGraphMemAttribute_v11040) X(cudaDeviceSetGraphMemAttribute_v11040) \
    X(cudaGraphNodeSetEnabled_v11060) X(cudaGraphNodeGetEnabled_v11060) \
    X(cudaArrayGetMemoryRequirements_v11060) X(cudaMipmappedArrayGetMemoryRequirements_v11060) \
    X(cudaLaunchKernelExC_v11060) X(cudaLaunchKernelExC_ptsz_v11060) \
    X(cudaOccupancyMaxPotentialClusterSize_v11070) X(cudaOccupancyMaxActiveClusters_v11070) \
    X(cudaCreateTextureObject_v2_v11080) X(cudaGetTextureObjectTextureDesc_v2_v11080) \
    X(cudaGraphInstantiateWithParams_v12000) X(cudaGraphInstantiateWithParams_ptsz_v12000) \
    X(cudaGraphExecGetFlags_v12000) X(cudaGetKernel_v12000) X(cudaGetDeviceProperties_v12000) \
    X(cudaStreamGetId_v12000) X(cudaStreamGetId_ptsz_v12000) X(cudaGraphInstantiate_v12000) \
    X(cudaInitDevice_v12000) X(cudaGraphAddNode_v12020) X(cudaGraphNodeSetParams_v12020) \
    X(cudaGraphExecNodeSetParams_v12020) X(cudaMemAdvise_v12020) X(cudaMemPrefetchAsync_v12020) \
    X(cudaMemPrefetchAsync_ptsz_v12020) X(cudaFuncGetName_v12030) \
    X(cudaStreamBeginCaptureToGraph_v12030) X(cudaStreamBeginCaptureToGraph_ptsz_v12030) \
    X(cudaGraphConditionalHandleCreate_v12030) X(cudaGraphGetEdges_v12030) \
    X(cudaGraphNodeGetDependencies_v12030) X(cudaGraphNodeGetDependentNodes_v12030) \
    X(cudaGraphAddDependencies_v12030) X(cudaGraphRemoveDependencies_v12030) \
    X(cudaGraphAddNode_v12030) X(cudaStreamGetCaptureInfo_v12030) \
    X(cudaStreamGetCaptureInfo_ptsz_v12030) X(cudaStreamUpdateCaptureDependencies_v12030) \
    X(cudaStreamUpdateCaptureDependencies_ptsz_v12030) \
    X(cudaDeviceRegisterAsyncNotification_v12040) X(cudaDeviceUnregisterAsyncNotification_v12040) \
    X(cudaFuncGetParamInfo_v12040) X(cudaGetDriverEntryPointByVersion_v12050) \
    X(cudaGetDriverEntryPointByVersion_ptsz_v12050) X(cudaLibraryLoadData_v12060) \
    X(cudaLibraryLoadFromFile_v12060) X(cudaLibraryUnload_v12060) X(cudaLibraryGetKernel_v12060) \
    X(cudaLibraryGetGlobal_v12060) X(cudaLibraryGetManaged_v12060) \
    X(cudaLibraryGetUnifiedFunction_v12060) X(cudaLibraryGetKernelCount_v12060) \
    X(cudaLibraryEnumerateKernels_v12060) X(cudaKernelSetAttributeForDevice_v12060) \
    X(cudaStreamGetDevice_v12080) X(cudaStreamGetDevice_ptsz_v12080) \
    X(cudaMemcpyBatchAsync_v12080) X(cudaMemcpyBatchAsync_ptsz_v12080) \
    X(cudaMemcpy3DBatchAsync_v12080) X(cudaMemcpy3DBatchAsync_ptsz_v12080) \
    X(cudaEventElapsedTime_v12080) X(cudaMemPrefetchBatchAsync_v13000) \
    X(cudaMemPrefetchBatchAsync_ptsz_v13000) X(cudaMemDiscardBatchAsync_v13000) \
    X(cudaMemDiscardBatchAsync_ptsz_v13000) X(cudaMemDiscardAndPrefetchBatchAsync_v13000) \
    X(cudaMemDiscardAndPrefetchBatchAsync_ptsz_v13000) X(cudaGetExportTable_v13000) \
    X(__cudaRegisterFatBinary_v13000) X(__cudaRegisterFatBinaryEnd_v13000) \
    X(__cudaUnregisterFatBinary_v13000) X(__cudaRegisterVar_v13000) \
    X(__cudaRegisterHostVar_v13000) X(__cudaRegisterFunction_v13000) \
    X(__cudaRegisterManagedVar_v13000) X(__cudaInitModule_v13000) \
    X(__cudaPushCallConfiguration_v13000) X(__cudaPopCallConfiguration_v13000) \
    X(__cudaGetKernel_v13000) X(__cudaLaunchKernel_v13000) X(__cudaLaunchKernel_ptsz_v13000) \
    X(__cudaRegisterUnifiedTable_v13000) X(__cudaGetProcAddress_v13000) \
    X(cudaMemcpyBatchAsync_v13000) X(cudaMemcpyBatchAsync_ptsz_v13000) \
    X(cudaMemcpy3DBatchAsync_v13000) X(cudaMemcpy3DBatchAsync_ptsz_v13000) \
    X(cudaLogsRegisterCallback_v13000) X(cudaLogsUnregisterCallback_v13000) \
    X(cudaLogsCurrent_v13000) X(cudaLogsDumpToFile_v13000) X(cudaLogsDumpToMemory_v13000) \
    X(cudaMemGetDefaultMemPool_v13000) X(cudaMemGetMemPool_v13000) X(cudaMemSetMemPool_v13000) \
    X(cudaDeviceGetHostAtomicCapabilities_v13000) X(cudaDeviceGetP2PAtomicCapabilities_v13000)

#define DRIVER_CALLS(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) \
    X(cuDeviceComputeCapability) X(cuDeviceTotalMem) X(cuDeviceGetProperties) \
    X(cuDeviceGetAttribute) X(cuCtxCreate) X(cuCtxDestroy) X(cuCtxAttach) X(cuCtxDetach) \
    X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetDevice) X(cuCtxSynchronize) X(cuModuleLoad) \
    X(cuModuleLoadData) X(cuModuleLoadDataEx) X(cuModuleLoadFatBinary) X(cuModuleUnload) \
    X(cuModuleGetFunction) X(cuModuleGetGlobal) X(cu64ModuleGetGlobal) X(cuModuleGetTexRef) \
    X(cuMemGetInfo) X(cu64MemGetInfo) X(cuMemAlloc) X(cu64MemAlloc) X(cuMemAllocPitch) \
    X(cu64MemAllocPitch) X(cuMemFree) X(cu64MemFree) X(cuMemGetAddressRange) \
    X(cu64MemGetAddressRange) X(cuMemAllocHost) X(cuMemFreeHost) X(cuMemHostAlloc) \
    X(cuMemHostGetDevicePointer) X(cu64MemHostGetDevicePointer) X(cuMemHostGetFlags) \
    X(cuMemcpyHtoD) X(cu64MemcpyHtoD) X(cuMemcpyDtoH) X(cu64MemcpyDtoH) X(cuMemcpyDtoD) \
    X(cu64MemcpyDtoD) X(cuMemcpyDtoA) X(cu64MemcpyDtoA) X(cuMemcpyAtoD) X(cu64MemcpyAtoD) \
    X(cuMemcpyHtoA) X(cuMemcpyAtoH) X(cuMemcpyAtoA) X(cuMemcpy2D) X(cuMemcpy2DUnaligned) \
    X(cuMemcpy3D) X(cu64Memcpy3D) X(cuMemcpyHtoDAsync) X(cu64MemcpyHtoDAsync) \
    X(cuMemcpyDtoHAsync) X(cu64MemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cu64MemcpyDtoDAsync) \
    X(cuMemcpyHtoAAsync) X(cuMemcpyAtoHAsync) X(cuMemcpy2DAsync) X(cuMemcpy3DAsync) \
    X(cu64Memcpy3DAsync) X(cuMemsetD8) X(cu64MemsetD8) X(cuMemsetD16) X(cu64MemsetD16) \
    X(cuMemsetD32) X(cu64MemsetD32) X(cuMemsetD2D8) X(cu64MemsetD2D8) X(cuMemsetD2D16) \
    X(cu64MemsetD2D16) X(cuMemsetD2D32) X(cu64MemsetD2D32) X(cuFuncSetBlockShape) \
    X(cuFuncSetSharedSize) X(cuFuncGetAttribute) X(cuFuncSetCacheConfig) X(cuArrayCreate) \
    X(cuArrayGetDescriptor) X(cuArrayDestroy) X(cuArray3DCreate) X(cuArray3DGetDescriptor) \
    X(cuTexRefCreate) X(cuTexRefDestroy) X(cuTexRefSetArray) X(cuTexRefSetAddress) \
    X(cu64TexRefSetAddress) X(cuTexRefSetAddress2D) X(cu64TexRefSetAddress2D) \
    X(cuTexRefSetFormat) X(cuTexRefSetAddressMode) X(cuTexRefSetFilterMode) X(cuTexRefSetFlags) \
    X(cuTexRefGetAddress) X(cu64TexRefGetAddress) X(cuTexRefGetArray) X(cuTexRefGetAddressMode) \
    X(cuTexRefGetFilterMode) X(cuTexRefGetFormat) X(cuTexRefGetFlags) X(cuParamSetSize) \
    X(cuParamSeti) X(cuParamSetf) X(cuParamSetv) X(cuParamSetTexRef) X(cuLaunch) X(cuLaunchGrid) \
    X(cuLaunchGridAsync) X(cuEventCreate) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) \
    X(cuEventDestroy) X(cuEventElapsedTime) X(cuStreamCreate) X(cuStreamQuery) \
    X(cuStreamSynchronize) X(cuStreamDestroy) X(cuGraphicsUnregisterResource) \
    X(cuGraphicsSubResourceGetMappedArray) X(cuGraphicsResourceGetMappedPointer) \
    X(cu64GraphicsResourceGetMappedPointer) X(cuGraphicsResourceSetMapFlags) \
    X(cuGraphicsMapResources) X(cuGraphicsUnmapResources) X(cuGetExportTable) X(cuCtxSetLimit) \
    X(cuCtxGetLimit) X(cuD3D10GetDevice) X(cuD3D10CtxCreate) X(cuGraphicsD3D10RegisterResource) \
    X(cuD3D10RegisterResource) X(cuD3D10UnregisterResource) X(cuD3D10MapResources) \
    X(cuD3D10UnmapResources) X(cuD3D10ResourceSetMapFlags) X(cuD3D10ResourceGetMappedArray) \
    X(cuD3D10ResourceGetMappedPointer) X(cuD3D10ResourceGetMappedSize) \
    X(cuD3D10ResourceGetMappedPitch) X(cuD3D10ResourceGetSurfaceDimensions) X(cuD3D11GetDevice) \
    X(cuD3D11CtxCreate) X(cuGraphicsD3D11RegisterResource) X(cuD3D9GetDevice) X(cuD3D9CtxCreate) \
    X(cuGraphicsD3D9RegisterResource) X(cuD3D9GetDirect3DDevice) X(cuD3D9RegisterResource) \
    X(cuD3D9UnregisterResource) X(cuD3D9MapResources) X(cuD3D9UnmapResources) \
    X(cuD3D9ResourceSetMapFlags) X(cuD3D9ResourceGetSurfaceDimensions) \
    X(cuD3D9ResourceGetMappedArray) X(cuD3D9ResourceGetMappedPointer) \
    X(cuD3D9ResourceGetMappedSize) X(cuD3D9ResourceGetMappedPitch) X(cuD3D9Begin) X(cuD3D9End) \
    X(cuD3D9RegisterVertexBuffer) X(cuD3D9MapVertexBuffer) X(cuD3D9UnmapVertexBuffer) \
    X(cuD3D9UnregisterVertexBuffer) X(cuGLCtxCreate) X(cuGraphicsGLRegisterBuffer) \
    X(cuGraphicsGLRegisterImage) X(cuWGLGetDevice) X(cuGLInit) X(cuGLRegisterBufferObject) \
    X(cuGLMapBufferObject) X(cuGLUnmapBufferObject) X(cuGLUnregisterBufferObject) \
    X(cuGLSetBufferObjectMapFlags) X(cuGLMapBufferObjectAsync) X(cuGLUnmapBufferObjectAsync) \
    X(cuVDPAUGetDevice) X(cuVDPAUCtxCreate) X(cuGraphicsVDPAURegisterVideoSurface) \
    X(cuGraphicsVDPAURegisterOutputSurface) X(cuModuleGetSurfRef) X(cuSurfRefCreate) \
    X(cuSurfRefDestroy) X(cuSurfRefSetFormat) X(cuSurfRefSetArray) X(cuSurfRefGetFormat) \
    X(cuSurfRefGetArray) X(cu64DeviceTotalMem) X(cu64D3D10ResourceGetMappedPointer) \
    X(cu64D3D10ResourceGetMappedSize) X(cu64D3D10ResourceGetMappedPitch) \
    X(cu64D3D10ResourceGetSurfaceDimensions) X(cu64D3D9ResourceGetSurfaceDimensions) \
    X(cu64D3D9ResourceGetMappedPointer) X(cu64D3D9ResourceGetMappedSize) \
    X(cu64D3D9ResourceGetMappedPitch) X(cu64D3D9MapVertexBuffer) X(cu64GLMapBufferObject) \
    X(cu64GLMapBufferObjectAsync) X(cuD3D11GetDevices) X(cuD3D11CtxCreateOnDevice) \
    X(cuD3D10GetDevices) X(cuD3D10CtxCreateOnDevice) X(cuD3D9GetDevices) \
    X(cuD3D9CtxCreateOnDevice) X(cu64MemHostAlloc) X(cuMemsetD8Async) X(cu64MemsetD8Async) \
    X(cuMemsetD16Async) X(cu64MemsetD16Async) X(cuMemsetD32Async) X(cu64MemsetD32Async) \
    X(cuMemsetD2D8Async) X(cu64MemsetD2D8Async) X(cuMemsetD2D16Async) X(cu64MemsetD2D16Async) \
    X(cuMemsetD2D32Async) X(cu64MemsetD2D32Async) X(cu64ArrayCreate) X(cu64ArrayGetDescriptor) \
    X(cu64Array3DCreate) X(cu64Array3DGetDescriptor) X(cu64Memcpy2D) X(cu64Memcpy2DUnaligned) \
    X(cu64Memcpy2DAsync) X(cuCtxCreate_v2) X(cuD3D10CtxCreate_v2) X(cuD3D11CtxCreate_v2) \
    X(cuD3D9CtxCreate_v2) X(cuGLCtxCreate_v2) X(cuVDPAUCtxCreate_v2) X(cuModuleGetGlobal_v2) \
    X(cuMemGetInfo_v2) X(cuMemAlloc_v2) X(cuMemAllocPitch_v2) X(cuMemFree_v2) \
    X(cuMemGetAddressRange_v2) X(cuMemHostGetDevicePointer_v2) X(cuMemcpy_v2) X(cuMemsetD8_v2) \
    X(cuMemsetD16_v2) X(cuMemsetD32_v2) X(cuMemsetD2D8_v2) X(cuMemsetD2D16_v2) \
    X(cuMemsetD2D32_v2) X(cuTexRefSetAddress_v2) X(cuTexRefSetAddress2D_v2) \
    X(cuTexRefGetAddress_v2) X(cuGraphicsResourceGetMappedPointer_v2) X(cuDeviceTotalMem_v2) \
    X(cuD3D10ResourceGetMappedPointer_v2) X(cuD3D10ResourceGetMappedSize_v2) \
    X(cuD3D10ResourceGetMappedPitch_v2) X(cuD3D10ResourceGetSurfaceDimensions_v2) \
    X(cuD3D9ResourceGetSurfaceDimensions_v2) X(cuD3D9ResourceGetMappedPointer_v2) \
    X(cuD3D9ResourceGetMappedSize_v2) X(cuD3D9ResourceGetMappedPitch_v2) \
    X(cuD3D9MapVertexBuffer_v2) X(cuGLMapBufferObject_v2) X(cuGLMapBufferObjectAsync_v2) \
    X(cuMemHostAlloc_v2) X(cuArrayCreate_v2) X(cuArrayGetDescriptor_v2) X(cuArray3DCreate_v2) \
    X(cuArray3DGetDescriptor_v2) X(cuMemcpyHtoD_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoH_v2) \
    X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoD_v2) X(cuMemcpyDtoDAsync_v2) X(cuMemcpyAtoH_v2) \
    X(cuMemcpyAtoHAsync_v2) X(cuMemcpyAtoD_v2) X(cuMemcpyDtoA_v2) X(cuMemcpyAtoA_v2) \
    X(cuMemcpy2D_v2) X(cuMemcpy2DUnaligned_v2) X(cuMemcpy2DAsync_v2) X(cuMemcpy3D_v2) \
    X(cuMemcpy3DAsync_v2) X(cuMemcpyHtoA_v2) X(cuMemcpyHtoAAsync_v2) X(cuMemAllocHost_v2) \
    X(cuStreamWaitEvent) X(cuCtxGetApiVersion) X(cuD3D10GetDirect3DDevice) \
    X(cuD3D11GetDirect3DDevice) X(cuCtxGetCacheConfig) X(cuCtxSetCacheConfig) \
    X(cuMemHostRegister) X(cuMemHostUnregister) X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuMemcpy) \
    X(cuMemcpyAsync) X(cuLaunchKernel) X(cuProfilerStart) X(cuProfilerStop) \
    X(cuPointerGetAttribute) X(cuProfilerInitialize) X(cuDeviceCanAccessPeer) \
    X(cuCtxEnablePeerAccess) X(cuCtxDisablePeerAccess) X(cuMemPeerRegister) \
    X(cuMemPeerUnregister) X(cuMemPeerGetDevicePointer) X(cuMemcpyPeer) X(cuMemcpyPeerAsync) \
    X(cuMemcpy3DPeer) X(cuMemcpy3DPeerAsync) X(cuCtxDestroy_v2) X(cuCtxPushCurrent_v2) \
    X(cuCtxPopCurrent_v2) X(cuEventDestroy_v2) X(cuStreamDestroy_v2) X(cuTexRefSetAddress2D_v3) \
    X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) X(cuDeviceGetByPCIBusId) \
    X(cuDeviceGetPCIBusId) X(cuGLGetDevices) X(cuIpcGetEventHandle) X(cuIpcOpenEventHandle) \
    X(cuCtxSetSharedMemConfig) X(cuCtxGetSharedMemConfig) X(cuFuncSetSharedMemConfig) \
    X(cuTexObjectCreate) X(cuTexObjectDestroy) X(cuTexObjectGetResourceDesc) \
    X(cuTexObjectGetTextureDesc) X(cuSurfObjectCreate) X(cuSurfObjectDestroy) \
    X(cuSurfObjectGetResourceDesc) X(cuStreamAddCallback) X(cuMipmappedArrayCreate) \
    X(cuMipmappedArrayGetLevel) X(cuMipmappedArrayDestroy) X(cuTexRefSetMipmappedArray) \
    X(cuTexRefSetMipmapFilterMode) X(cuTexRefSetMipmapLevelBias) X(cuTexRefSetMipmapLevelClamp) \
    X(cuTexRefSetMaxAnisotropy) X(cuTexRefGetMipmappedArray) X(cuTexRefGetMipmapFilterMode) \
    X(cuTexRefGetMipmapLevelBias) X(cuTexRefGetMipmapLevelClamp) X(cuTexRefGetMaxAnisotropy) \
    X(cuGraphicsResourceGetMappedMipmappedArray) X(cuTexObjectGetResourceViewDesc) \
    X(cuLinkCreate) X(cuLinkAddData) X(cuLinkAddFile) X(cuLinkComplete) X(cuLinkDestroy) \
    X(cuStreamCreateWithPriority) X(cuStreamGetPriority) X(cuStreamGetFlags) \
    X(cuCtxGetStreamPriorityRange) X(cuMemAllocManaged) X(cuGetErrorString) X(cuGetErrorName) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuCompilePtx) X(cuBinaryFree) \
    X(cuStreamAttachMemAsync) X(cuPointerSetAttribute) X(cuMemHostRegister_v2) \
    X(cuGraphicsResourceSetMapFlags_v2) X(cuLinkCreate_v2) X(cuLinkAddData_v2) \
    X(cuLinkAddFile_v2) X(cuOccupancyMaxPotentialBlockSize) X(cuGLGetDevices_v2) \
    X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxSetFlags) \
    X(cuDevicePrimaryCtxReset) X(cuGraphicsEGLRegisterImage) X(cuCtxGetFlags) \
    X(cuDevicePrimaryCtxGetState) X(cuEGLStreamConsumerConnect) X(cuEGLStreamConsumerDisconnect) \
    X(cuEGLStreamConsumerAcquireFrame) X(cuEGLStreamConsumerReleaseFrame) X(cuMemcpyHtoD_v2_ptds) \
    X(cuMemcpyDtoH_v2_ptds) X(cuMemcpyDtoD_v2_ptds) X(cuMemcpyDtoA_v2_ptds) \
    X(cuMemcpyAtoD_v2_ptds) X(cuMemcpyHtoA_v2_ptds) X(cuMemcpyAtoH_v2_ptds) \
    X(cuMemcpyAtoA_v2_ptds) X(cuMemcpy2D_v2_ptds) X(cuMemcpy2DUnaligned_v2_ptds) \
    X(cuMemcpy3D_v2_ptds) X(cuMemcpy_ptds) X(cuMemcpyPeer_ptds) X(cuMemcpy3DPeer_ptds) \
    X(cuMemsetD8_v2_ptds) X(cuMemsetD16_v2_ptds) X(cuMemsetD32_v2_ptds) X(cuMemsetD2D8_v2_ptds) \
    X(cuMemsetD2D16_v2_ptds) X(cuMemsetD2D32_v2_ptds) X(cuGLMapBufferObject_v2_ptds) \
    X(cuMemcpyAsync_ptsz) X(cuMemcpyHtoAAsync_v2_ptsz) X(cuMemcpyAtoHAsync_v2_ptsz) \
    X(cuMemcpyHtoDAsync_v2_ptsz) X(cuMemcpyDtoHAsync_v2_ptsz) X(cuMemcpyDtoDAsync_v2_ptsz) \
    X(cuMemcpy2DAsync_v2_ptsz) X(cuMemcpy3DAsync_v2_ptsz) X(cuMemcpyPeerAsync_ptsz) \
    X(cuMemcpy3DPeerAsync_ptsz) X(cuMemsetD8Async_ptsz) X(cuMemsetD16Async_ptsz) \
    X(cuMemsetD32Async_ptsz) X(cuMemsetD2D8Async_ptsz) X(cuMemsetD2D16Async_ptsz) \
    X(cuMemsetD2D32Async_ptsz) X(cuStreamGetPriority_ptsz) X(cuStreamGetFlags_ptsz) \
    X(cuStreamWaitEvent_ptsz) X(cuStreamAddCallback_ptsz) X(cuStreamAttachMemAsync_ptsz) \
    X(cuStreamQuery_ptsz) X(cuStreamSynchronize_ptsz) X(cuEventRecord_ptsz) \
    X(cuLaunchKernel_ptsz) X(cuGraphicsMapResources_ptsz) X(cuGraphicsUnmapResources_ptsz) \
    X(cuGLMapBufferObjectAsync_v2_ptsz) X(cuEGLStreamProducerConnect) \
    X(cuEGLStreamProducerDisconnect) X(cuEGLStreamProducerPresentFrame) \
    X(cuGraphicsResourceGetMappedEglFrame) X(cuPointerGetAttributes) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags) X(cuEGLStreamProducerReturnFrame) \
    X(cuDeviceGetP2PAttribute) X(cuTexRefSetBorderColor) X(cuTexRefGetBorderColor) X(cuMemAdvise) \
    X(cuStreamWaitValue32) X(cuStreamWaitValue32_ptsz) X(cuStreamWriteValue32) \
    X(cuStreamWriteValue32_ptsz) X(cuStreamBatchMemOp) X(cuStreamBatchMemOp_ptsz) \
    X(cuNVNbufferGetPointer) X(cuNVNtextureGetArray) X(cuNNSetAllocator) X(cuMemPrefetchAsync) \
    X(cuMemPrefetchAsync_ptsz) X(cuEventCreateFromNVNSync) X(cuEGLStreamConsumerConnectWithFlags) \
    X(cuMemRangeGetAttribute) X(cuMemRangeGetAttributes) X(cuStreamWaitValue64) \
    X(cuStreamWaitValue64_ptsz) X(cuStreamWriteValue64) X(cuStreamWriteValue64_ptsz) \
    X(cuLaunchCooperativeKernel) X(cuLaunchCooperativeKernel_ptsz) X(cuEventCreateFromEGLSync) \
    X(cuLaunchCooperativeKernelMultiDevice) X(cuFuncSetAttribute) X(cuDeviceGetUuid) \
    X(cuStreamGetCtx) X(cuStreamGetCtx_ptsz) X(cuImportExternalMemory) \
    X(cuExternalMemoryGetMappedBuffer) X(cuExternalMemoryGetMappedMipmappedArray) \
    X(cuDestroyExternalMemory) X(cuImportExternalSemaphore) X(cuSignalExternalSemaphoresAsync) \
    X(cuSignalExternalSemaphoresAsync_ptsz) X(cuWaitExternalSemaphoresAsync) \
    X(cuWaitExternalSemaphoresAsync_ptsz) X(cuDestroyExternalSemaphore) X(cuStreamBeginCapture) \
    X(cuStreamBeginCapture_ptsz) X(cuStreamEndCapture) X(cuStreamEndCapture_ptsz) \
    X(cuStreamIsCapturing) X(cuStreamIsCapturing_ptsz) X(cuGraphCreate) X(cuGraphAddKernelNode) \
    X(cuGraphKernelNodeGetParams) X(cuGraphAddMemcpyNode) X(cuGraphMemcpyNodeGetParams) \
    X(cuGraphAddMemsetNode) X(cuGraphMemsetNodeGetParams) X(cuGraphMemsetNodeSetParams) \
    X(cuGraphNodeGetType) X(cuGraphGetRootNodes) X(cuGraphNodeGetDependencies) \
    X(cuGraphNodeGetDependentNodes) X(cuGraphInstantiate) X(cuGraphLaunch) X(cuGraphLaunch_ptsz) \
    X(cuGraphExecDestroy) X(cuGraphDestroy) X(cuGraphAddDependencies) \
    X(cuGraphRemoveDependencies) X(cuGraphMemcpyNodeSetParams) X(cuGraphKernelNodeSetParams) \
    X(cuGraphDestroyNode) X(cuGraphClone) X(cuGraphNodeFindInClone) X(cuGraphAddChildGraphNode) \
    X(cuGraphAddEmptyNode) X(cuLaunchHostFunc) X(cuLaunchHostFunc_ptsz) \
    X(cuGraphChildGraphNodeGetGraph) X(cuGraphAddHostNode) X(cuGraphHostNodeGetParams) \
    X(cuDeviceGetLuid) X(cuGraphHostNodeSetParams) X(cuGraphGetNodes) X(cuGraphGetEdges) \
    X(cuStreamGetCaptureInfo) X(cuStreamGetCaptureInfo_ptsz) X(cuGraphExecKernelNodeSetParams) \
    X(cuStreamBeginCapture_v2) X(cuStreamBeginCapture_v2_ptsz) \
    X(cuThreadExchangeStreamCaptureMode) X(cuDeviceGetNvSciSyncAttributes) \
    X(cuOccupancyAvailableDynamicSMemPerBlock) X(cuDevicePrimaryCtxRelease_v2) \
    X(cuDevicePrimaryCtxReset_v2) X(cuDevicePrimaryCtxSetFlags_v2) X(cuMemAddressReserve) \
    X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) \
    X(cuMemSetAccess) X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle) \
    X(cuMemGetAllocationGranularity) X(cuMemGetAllocationPropertiesFromHandle) X(cuMemGetAccess) \
    X(cuStreamSetFlags) X(cuStreamSetFlags_ptsz) X(cuGraphExecUpdate) \
    X(cuGraphExecMemcpyNodeSetParams) X(cuGraphExecMemsetNodeSetParams) \
    X(cuGraphExecHostNodeSetParams) X(cuMemRetainAllocationHandle) X(cuFuncGetModule) \
    X(cuIpcOpenMemHandle_v2) X(cuCtxResetPersistingL2Cache) X(cuGraphKernelNodeCopyAttributes) \
    X(cuGraphKernelNodeGetAttribute) X(cuGraphKernelNodeSetAttribute) X(cuStreamCopyAttributes) \
    X(cuStreamCopyAttributes_ptsz) X(cuStreamGetAttribute) X(cuStreamGetAttribute_ptsz) \
    X(cuStreamSetAttribute) X(cuStreamSetAttribute_ptsz) X(cuGraphInstantiate_v2) \
    X(cuDeviceGetTexture1DLinearMaxWidth) X(cuGraphUpload) X(cuGraphUpload_ptsz) \
    X(cuArrayGetSparseProperties) X(cuMipmappedArrayGetSparseProperties) X(cuMemMapArrayAsync) \
    X(cuMemMapArrayAsync_ptsz) X(cuGraphExecChildGraphNodeSetParams) X(cuEventRecordWithFlags) \
    X(cuEventRecordWithFlags_ptsz) X(cuGraphAddEventRecordNode) X(cuGraphAddEventWaitNode) \
    X(cuGraphEventRecordNodeGetEvent) X(cuGraphEventWaitNodeGetEvent) \
    X(cuGraphEventRecordNodeSetEvent) X(cuGraphEventWaitNodeSetEvent) \
    X(cuGraphExecEventRecordNodeSetEvent) X(cuGraphExecEventWaitNodeSetEvent) X(cuArrayGetPlane) \
    X(cuMemAllocAsync) X(cuMemAllocAsync_ptsz) X(cuMemFreeAsync) X(cuMemFreeAsync_ptsz) \
    X(cuMemPoolTrimTo) X(cuMemPoolSetAttribute) X(cuMemPoolGetAttribute) X(cuMemPoolSetAccess) \
    X(cuDeviceGetDefaultMemPool) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuDeviceSetMemPool) \
    X(cuDeviceGetMemPool) X(cuMemAllocFromPoolAsync) X(cuMemAllocFromPoolAsync_ptsz) \
    X(cuMemPoolExportToShareableHandle) X(cuMemPoolImportFromShareableHandle) \
    X(cuMemPoolExportPointer) X(cuMemPoolImportPointer) X(cuMemPoolGetAccess) \
    X(cuGraphAddExternalSemaphoresSignalNode) X(cuGraphExternalSemaphoresSignalNodeGetParams) \
    X(cuGraphExternalSemaphoresSignalNodeSetParams) X(cuGraphAddExternalSemaphoresWaitNode) \
    X(cuGraphExternalSemaphoresWaitNodeGetParams) X(cuGraphExternalSemaphoresWaitNodeSetParams) \
    X(cuGraphExecExternalSemaphoresSignalNodeSetParams) \
    X(cuGraphExecExternalSemaphoresWaitNodeSetParams) X(cuGetProcAddress) \
    X(cuFlushGPUDirectRDMAWrites) X(cuGraphDebugDotPrint) X(cuStreamGetCaptureInfo_v2) \
    X(cuStreamGetCaptureInfo_v2_ptsz) X(cuStreamUpdateCaptureDependencies) \
    X(cuStreamUpdateCaptureDependencies_ptsz) X(cuUserObjectCreate) X(cuUserObjectRetain) \
    X(cuUserObjectRelease) X(cuGraphRetainUserObject) X(cuGraphReleaseUserObject) \
    X(cuGraphAddMemAllocNode) X(cuGraphAddMemFreeNode) X(cuDeviceGraphMemTrim) \
    X(cuDeviceGetGraphMemAttribute) X(cuDeviceSetGraphMemAttribute) \
    X(cuGraphInstantiateWithFlags) X(cuDeviceGetExecAffinitySupport) X(cuCtxCreate_v3) \
    X(cuCtxGetExecAffinity) X(cuDeviceGetUuid_v2) X(cuGraphMemAllocNodeGetParams) \
    X(cuGraphMemFreeNodeGetParams) X(cuGraphNodeSetEnabled) X(cuGraphNodeGetEnabled) \
    X(cuLaunchKernelEx) X(cuLaunchKernelEx_ptsz) X(cuArrayGetMemoryRequirements) \
    X(cuMipmappedArrayGetMemoryRequirements) X(cuGraphInstantiateWithParams) \
    X(cuGraphInstantiateWithParams_ptsz) X(cuGraphExecGetFlags) X(cuStreamWaitValue32_v2) \
    X(cuStreamWaitValue32_v2_ptsz) X(cuStreamWaitValue64_v2) X(cuStreamWaitValue64_v2_ptsz) \
    X(cuStreamWriteValue32_v2) X(cuStreamWriteValue32_v2_ptsz) X(cuStreamWriteValue64_v2) \
    X(cuStreamWriteValue64_v2_ptsz) X(cuStreamBatchMemOp_v2) X(cuStreamBatchMemOp_v2_ptsz) \
    X(cuGraphAddBatchMemOpNode) X(cuGraphBatchMemOpNodeGetParams) \
    X(cuGraphBatchMemOpNodeSetParams) X(cuGraphExecBatchMemOpNodeSetParams) \
    X(cuModuleGetLoadingMode) X(cuMemGetHandleForAddressRange) \
    X(cuOccupancyMaxPotentialClusterSize) X(cuOccupancyMaxActiveClusters) X(cuGetProcAddress_v2) \
    X(cuLibraryLoadData) X(cuLibraryLoadFromFile) X(cuLibraryUnload) X(cuLibraryGetKernel) \
    X(cuLibraryGetModule) X(cuKernelGetFunction) X(cuLibraryGetGlobal) X(cuLibraryGetManaged) \
    X(cuKernelGetAttribute) X(cuKernelSetAttribute) X(cuKernelSetCacheConfig) \
    X(cuGraphAddKernelNode_v2) X(cuGraphKernelNodeGetParams_v2) X(cuGraphKernelNodeSetParams_v2) \
    X(cuGraphExecKernelNodeSetParams_v2) X(cuStreamGetId) X(cuStreamGetId_ptsz) X(cuCtxGetId) \
    X(cuGraphExecUpdate_v2) X(cuTensorMapEncodeTiled) X(cuTensorMapEncodeIm2col) \
    X(cuTensorMapReplaceAddress) X(cuLibraryGetUnifiedFunction) X(cuCoredumpGetAttribute) \
    X(cuCoredumpGetAttributeGlobal) X(cuCoredumpSetAttribute) X(cuCoredumpSetAttributeGlobal) \
    X(cuCtxSetFlags) X(cuMulticastCreate) X(cuMulticastAddDevice) X(cuMulticastBindMem) \
    X(cuMulticastBindAddr) X(cuMulticastUnbind) X(cuMulticastGetGranularity) X(cuGraphAddNode) \
    X(cuGraphNodeSetParams) X(cuGraphExecNodeSetParams) X(cuMemAdvise_v2) \
    X(cuMemPrefetchAsync_v2) X(cuMemPrefetchAsync_v2_ptsz) X(cuFuncGetName) X(cuKernelGetName) \
    X(cuStreamBeginCaptureToGraph) X(cuStreamBeginCaptureToGraph_ptsz) \
    X(cuGraphConditionalHandleCreate) X(cuGraphAddNode_v2) X(cuGraphGetEdges_v2) \
    X(cuGraphNodeGetDependencies_v2) X(cuGraphNodeGetDependentNodes_v2) \
    X(cuGraphAddDependencies_v2) X(cuGraphRemoveDependencies_v2) X(cuStreamGetCaptureInfo_v3) \
    X(cuStreamGetCaptureInfo_v3_ptsz) X(cuStreamUpdateCaptureDependencies_v2) \
    X(cuStreamUpdateCaptureDependencies_v2_ptsz) X(cuFuncGetParamInfo) X(cuKernelGetParamInfo) \
    X(cuDeviceRegisterAsyncNotification) X(cuDeviceUnregisterAsyncNotification) \
    X(cuModuleGetFunctionCount) X(cuModuleEnumerateFunctions) X(cuLibraryGetKernelCount) \
    X(cuLibraryEnumerateKernels) X(cuFuncIsLoaded) X(cuFuncLoad) X(cuGreenCtxCreate) \
    X(cuGreenCtxDestroy) X(cuDeviceGetDevResource) X(cuCtxGetDevResource) \
    X(cuGreenCtxGetDevResource) X(cuDevResourceGenerateDesc) X(cuGreenCtxRecordEvent) \
    X(cuGreenCtxWaitEvent) X(cuDevSmResourceSplitByCount) X(cuStreamGetGreenCtx) \
    X(cuCtxFromGreenCtx) X(cuKernelGetLibrary) X(cuCtxRecordEvent) X(cuCtxWaitEvent) \
    X(cuCtxCreate_v4) X(cuGreenCtxStreamCreate) X(cuStreamGetCtx_v2) X(cuStreamGetCtx_v2_ptsz) \
    X(cuMemBatchDecompressAsync) X(cuMemBatchDecompressAsync_ptsz) X(cuLogsRegisterCallback) \
    X(cuLogsUnregisterCallback) X(cuLogsCurrent) X(cuLogsDumpToFile) X(cuLogsDumpToMemory) \
    X(cuCheckpointProcessGetRestoreThreadId) X(cuCheckpointProcessGetState) \
    X(cuCheckpointProcessLock) X(cuCheckpointProcessCheckpoint) X(cuCheckpointProcessRestore) \
    X(cuCheckpointProcessUnlock) X(cuStreamGetDevice) X(cuStreamGetDevice_ptsz) \
    X(cuMemcpyBatchAsync) X(cuMemcpyBatchAsync_ptsz) X(cuMemcpy3DBatchAsync) \
    X(cuMemcpy3DBatchAsync_ptsz) X(cuEventElapsedTime_v2) X(cuTensorMapEncodeIm2colWide) \
    X(cuGreenCtxGetId) X(cuStreamCreateForCaptureToCig) X(cuMemPrefetchBatchAsync) \
    X(cuMemPrefetchBatchAsync_ptsz) X(cuSemaphoreCreate) X(cuSemaphoreExport) \
    X(cuSemaphoreDestroy) X(cuMemDiscardBatchAsync) X(cuMemDiscardBatchAsync_ptsz) \
    X(cuMemDiscardAndPrefetchBatchAsync) X(cuMemDiscardAndPrefetchBatchAsync_ptsz) \
    X(cuMultiKernelCooperativeDomainCreate) X(cuMultiKernelCooperativeDomainDestroy) \
    X(cuCtxGetDevice_v2) X(cuMemcpyBatchAsync_v2) X(cuMemcpyBatchAsync_v2_ptsz) \
    X(cuMemcpy3DBatchAsync_v2) X(cuMemcpy3DBatchAsync_v2_ptsz) X(cuCtxSynchronize_v2) \
    X(cuMemGetDefaultMemPool) X(cuMemGetMemPool) X(cuMemSetMemPool) \
    X(cuDeviceGetP2PAtomicCapabilities) X(cuDeviceGetHostAtomicCapabilities) \
    X(cuDriverGetGpuCodeIsaVersion)
/* clang-format on */

#endif
