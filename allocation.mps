NAME key-group-allocation
ROWS
 N objective
 E one_node[k0]
 E one_node[k1]
 E one_node[k2]
 E one_node[k3]
 L migrations
 L upper_load[n0]
 L upper_load[n1]
 L lower_load[n0]
 L lower_load[n1]
COLUMNS
 d objective 1.0
 d upper_load[n0] -1.0
 d upper_load[n1] -1.0
 d lower_load[n0] -1.0
 d lower_load[n1] -1.0
 MARKER 'MARKER' 'INTORG'
 x[k0,n0] objective 0.0
 x[k0,n0] one_node[k0] 1.0
 x[k0,n0] migrations -1.0
 x[k0,n0] upper_load[n0] 6.0
 x[k0,n0] lower_load[n0] -6.0
 x[k0,n1] objective 0.0
 x[k0,n1] one_node[k0] 1.0
 x[k0,n1] upper_load[n1] 6.0
 x[k0,n1] lower_load[n1] -6.0
 x[k1,n0] objective 0.0
 x[k1,n0] one_node[k1] 1.0
 x[k1,n0] migrations -1.0
 x[k1,n0] upper_load[n0] 3.0
 x[k1,n0] lower_load[n0] -3.0
 x[k1,n1] objective 0.0
 x[k1,n1] one_node[k1] 1.0
 x[k1,n1] upper_load[n1] 3.0
 x[k1,n1] lower_load[n1] -3.0
 x[k2,n0] objective 0.0
 x[k2,n0] one_node[k2] 1.0
 x[k2,n0] migrations -1.0
 x[k2,n0] upper_load[n0] 2.0
 x[k2,n0] lower_load[n0] -2.0
 x[k2,n1] objective 0.0
 x[k2,n1] one_node[k2] 1.0
 x[k2,n1] upper_load[n1] 2.0
 x[k2,n1] lower_load[n1] -2.0
 x[k3,n0] objective 0.0
 x[k3,n0] one_node[k3] 1.0
 x[k3,n0] upper_load[n0] 1.0
 x[k3,n0] lower_load[n0] -1.0
 x[k3,n1] objective 0.0
 x[k3,n1] one_node[k3] 1.0
 x[k3,n1] migrations -1.0
 x[k3,n1] upper_load[n1] 1.0
 x[k3,n1] lower_load[n1] -1.0
 MARKER 'MARKER' 'INTEND'
 d_u objective 0.0
 d_u upper_load[n0] 1.0
 d_u upper_load[n1] 1.0
 d_l objective 0.0
 d_l lower_load[n0] 1.0
 d_l lower_load[n1] 1.0
RHS
 RHS one_node[k0] 1.0
 RHS one_node[k1] 1.0
 RHS one_node[k2] 1.0
 RHS one_node[k3] 1.0
 RHS migrations -3.0
 RHS upper_load[n0] 6.0
 RHS upper_load[n1] 6.0
 RHS lower_load[n0] -6.0
 RHS lower_load[n1] -6.0
BOUNDS
 LO BOUND d 0.0
 UP BOUND d 18.0
 LO BOUND x[k0,n0] 0.0
 UP BOUND x[k0,n0] 1.0
 LO BOUND x[k0,n1] 0.0
 UP BOUND x[k0,n1] 1.0
 LO BOUND x[k1,n0] 0.0
 UP BOUND x[k1,n0] 1.0
 LO BOUND x[k1,n1] 0.0
 UP BOUND x[k1,n1] 1.0
 LO BOUND x[k2,n0] 0.0
 UP BOUND x[k2,n0] 1.0
 LO BOUND x[k2,n1] 0.0
 UP BOUND x[k2,n1] 1.0
 LO BOUND x[k3,n0] 0.0
 UP BOUND x[k3,n0] 1.0
 LO BOUND x[k3,n1] 0.0
 UP BOUND x[k3,n1] 1.0
 LO BOUND d_u 0.0
 UP BOUND d_u 36.0
 LO BOUND d_l 0.0
 UP BOUND d_l 36.0
ENDATA
