# Compile through ccache where it is installed.
find_program(MT_CCACHE ccache)
if(MT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${MT_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MT_CCACHE})
endif()
