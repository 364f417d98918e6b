# Placing, joining and reporting collectives, planning memory.
mt_library(MtPlacement
  BucketCollectives.cpp
  OverlapCollectives.cpp
  PlaceCollectives.cpp
  PlanMemory.cpp
  Renumber.cpp
  Report.cpp
  VerifyPhase.cpp
  LINK MtAnalysis)
