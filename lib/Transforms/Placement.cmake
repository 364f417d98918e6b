# Placing, joining and reporting collectives.
mt_library(MtPlacement
  PlaceCollectives.cpp
  LINK MtAnalysis)
