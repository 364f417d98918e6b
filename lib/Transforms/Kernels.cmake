# What is computed together: products with sums, neighbours in memory, rows.
mt_library(MtKernels
  AccumulateProducts.cpp
  FormKernels.cpp
  InlineSlices.cpp
  JoinActivations.cpp
  JoinProducts.cpp
  JoinSquares.cpp
  JoinUpdates.cpp
  JoinedKernel.cpp
  MakeKernel.cpp
  LINK MtAnalysis)
